// The network of the page in ONNX (rl_clarity/agents/onnx_export.py), which onnxruntime-web computes in this page.
import { Refusal } from "../data/ask.js";

/**
 * @typedef {object} Network
 * @property {Float32Array[]} initial each part of the initial state, empty for a network without a state
 * @property {Record<string, any>} stored the arrays of its chunk
 * @property {(feeds: Batch, changes?: Map<string, Change>) => Promise<Outputs>} forward
 * @property {(feeds: Batch, layer: string) => Promise<Float32Array>} activations of a layer (B, h, w, c)
 *
 * @typedef {object} Batch
 * @property {Float32Array} observations (B, H, W, C), from 0 to 255
 * @property {Float32Array[]} state each part (B, ...) before the step
 *
 * @typedef {(values: Float32Array, shape: number[]) => Float32Array} Change of activations (B, h, w, c)
 * @typedef {{values: number[] | null, logits: number[][], state: Float32Array[]}} Outputs with the state after the step
 */

/**
 * Load the network and its runtime. It throws Refusal for a network that is damaged or another one.
 *
 * @param {any} section as `WhatIfSection`
 * @param {(name: string) => Promise<any>} chunk
 * @returns {Promise<Network>}
 */
export async function openNetwork({ network, runtime, sha256, layers }, chunk) {
  const [stored, files] = await Promise.all([chunk(network), chunk(runtime)]);
  if ((await digest(stored.onnx)) !== sha256) {
    throw new Refusal("The network file in this page's folder is not the one from which the page was made.");
  }
  const { ort, session } = await start(files, stored.onnx);
  const shapes = Object.fromEntries(session.inputMetadata.map(({ name, shape }) => [name, shape.slice(1)]));
  const names = (prefix, list) => list.filter((name) => name.startsWith(prefix));
  const states = names("state.", session.inputNames);
  const after = names("after.", session.outputNames);
  const heads = session.outputNames.filter((name) => !/^(after|layer)\./.test(name));

  function feedsOf({ observations, state }) {
    const count = observations.length / size(shapes.observations);
    const tensor = (name, data) => new ort.Tensor("float32", data, [count, ...shapes[name]]);
    const zeros = (name) => tensor(name, new Float32Array(count * size(shapes[name])));
    return {
      tensor,
      feeds: {
        observations: tensor("observations", observations),
        ...Object.fromEntries(states.map((name, i) => [name, tensor(name, state[i])])),
        ...Object.fromEntries(names("write.", session.inputNames).map((name) => [name, zeros(name)])),
        ...keepOf(new Float32Array(layers.length).fill(1)),
      },
    };
  }

  const keepOf = (keep) => ({ keep: new ort.Tensor("float32", keep, [layers.length]) });

  async function activations(batch, layer) {
    const name = `layer.${layers.indexOf(layer)}`;
    return (await session.run(feedsOf(batch).feeds, [name]))[name].data;
  }

  /** Layers are changed in their order: each is computed with the changes of those before it. */
  async function forward(batch, changes = new Map()) {
    const { tensor, feeds } = feedsOf(batch);
    const keep = new Float32Array(layers.length).fill(1);
    for (const [i, layer] of layers.entries()) {
      const change = changes.get(layer);
      if (!change) continue;
      const { [`layer.${i}`]: values } = await session.run(feeds, [`layer.${i}`]);
      keep[i] = 0;
      const written = change(values.data, shapes[`write.${i}`]);
      Object.assign(feeds, keepOf(keep.slice()), { [`write.${i}`]: tensor(`write.${i}`, written) });
    }
    const results = await session.run(feeds, [...heads, ...after]);
    const values = results.values && Array.from(results.values.data);
    return {
      values: values ?? null,
      logits: rows(results.policy_logits ?? results.q_values),
      state: after.map((name) => results[name].data),
    };
  }

  return { initial: states.map((name) => Float32Array.from(stored[name])), stored, activations, forward };
}

/** How many numbers an array of a shape has. */
const size = (shape) => shape.reduce((product, length) => product * length, 1);

function rows({ data, dims: [count, width] }) {
  return Array.from({ length: count }, (_, i) => Array.from(data.subarray(i * width, (i + 1) * width)));
}

/** SHA-256 of bytes, in hexadecimal digits. */
async function digest(bytes) {
  const hash = new Uint8Array(await globalThis.crypto.subtle.digest("SHA-256", bytes));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Import the runtime, which requests nothing, since it gets its WebAssembly here, and open the network with it. */
async function start({ script, wasm }, onnx) {
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  try {
    const ort = await import(address);
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.wasmBinary = wasm;
    return { ort, session: await ort.InferenceSession.create(onnx, { executionProviders: ["wasm"] }) };
  } catch (error) {
    throw new Refusal(`This browser cannot run the network: ${error.message}`);
  } finally {
    URL.revokeObjectURL(address);
  }
}
