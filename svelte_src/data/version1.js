/** A manifest of version 1 in version 2's shape. */
export function upgraded(old) {
  const { agent, observation, actions, action_groups, env_name, outputs, trajectories, layers, ...rest } = old;
  const { segment, scrub, film, bookmarks, observations, sections = [], ...top } = rest;
  const features = Object.fromEntries(
    layers.map((l) => [
      l.slug,
      { chunk: l.features, thumbnails: l.thumbnails, reduction: l.nmf, optimized: l.optimized },
    ]),
  );
  const { pictures, per_picture, ...atlas } = observations;
  const own = { agent: "agent-1", recording: "recording-1" };
  return {
    ...top,
    version: 2,
    kind: "agent",
    agents: [{ id: "agent-1", ...agent, observation, actions, action_groups }],
    recordings: [{ id: "recording-1", agent: "agent-1", env_name }],
    sections: [
      {
        kind: "trajectories",
        ...own,
        data: {
          segment,
          scrub,
          film,
          bookmarks,
          trajectories: trajectories.map(({ pictures: images, ...t }) => ({ ...t, images })),
        },
      },
      ...(layers.length
        ? [
            {
              kind: "features",
              ...own,
              data: { observations: { ...atlas, images: pictures, per_image: per_picture }, layers: features },
            },
            { kind: "attribution", ...own, data: { outputs, layers } },
          ]
        : []),
      ...sections,
    ],
  };
}
