// Sections of pages; scripts/make_sections.py writes this from their dataclasses.

/** Images of the filmstrip, which show the steps from left to right. */
export interface Scrub {
  /** Number of steps in an image; the last image of a trajectory may have fewer. */
  steps: number;
  /** Height of the frame, or less for large frames. */
  height: number;
  /** Width of a step in pixels. A step shows the part `filmstrip.scrub_range` of its frame. */
  step_width: number;
}

/** Layout of the images that `filmstrip.images` adds. The page itself draws frames from chunks. */
export interface FrameSheets {
  /** Number of frames in a row. */
  columns: number;
}

/** An episode of a trajectory. */
export interface EpisodeSummary {
  /** First step of the episode. */
  frame: number;
  steps: number;
  /** Undiscounted return. */
  return: number;
  /** How the episode ended: `ended` if it is not known how, `cut` if the recording stops before the end. */
  end: "done" | "time limit" | "ended" | "cut";
  /** What ended the episode, if the environment reports it: `saw`, `level completed`, `life lost`. */
  cause?: string;
}

/** A trajectory and its files. */
export interface TrajectoryEntry {
  steps: number;
  series: string;
  scrub: string[];
  /** Chunk of each segment. */
  frames: string[];
  /** Image of each segment, if `filmstrip.images` is set. */
  images: string[];
  episodes?: EpisodeSummary[];
}

/** A step with a high or low advantage. */
export interface Bookmark {
  trajectory: number;
  frame: number;
  advantage: number;
}

/** Steps with the highest and the lowest advantages, strongest first. */
export interface Bookmarks {
  high: Bookmark[];
  low: Bookmark[];
}

/** Frames and values along each trajectory. */
export interface TrajectoriesSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** Steps per chunk of frames or attribution; the last segment of a trajectory may be shorter. */
  segment: number;
  scrub: Scrub;
  film: FrameSheets;
  trajectories: TrajectoryEntry[];
  /** None if there are no advantages: for an agent without a value, and on pages of recordings. */
  bookmarks?: Bookmarks;
  /** Names of the agent's numeric inputs, in the order of the array `inputs` of a series. They are the entries of a vector, or of the parts of a dictionary observation other than the image. None for an agent that observes only images. */
  inputs?: string[];
}

/** The counterpart of a feature in another fit. */
export interface MatchedFeature {
  /** Number of the feature in the other fit, counted from 1. */
  number: number;
  /** Cosine similarity of the components, at least 0.8. */
  similarity: number;
}

/** Errors of a channel reduction. */
export interface ReductionErrors {
  /** Relative reconstruction error on observations that the reduction was fitted to. */
  error: number;
  /** Number of these observations. */
  fitted_on: number;
  /** Error on held-out observations; null if there are none. */
  error_held_out: number | null;
}

/** Statistics of a feature. It is *on* where its activation exceeds a fifth of its strongest activation. */
export interface FeatureStatistics {
  /** The strongest activation on the extra observations. */
  strongest: number;
  /** Share of these observations in which the feature is on. */
  frames: number;
  /** Share of the layer's positions, over all these observations, at which the feature is on. */
  positions: number;
  /** Relative reconstruction error of attribution at the positions where the feature is the strongest, on held-out observations if there are any; null if the feature is never the strongest. */
  error: number | null;
  /** Mean cosine similarity of the component to its counterparts in two fits with different seeds and random starts. */
  stability: number;
  /** Features, counted from 0, that overlap with this one by at least half, in both directions. */
  twins: number[];
}

/** The extent of a receptive field around the center of a position, in pixels of the observation. */
export interface ReceptiveField {
  height: number;
  width: number;
  effective_height: number;
  effective_width: number;
}

/** The share of attribution that a layer's features cover. */
export interface CoveredAttribution {
  /** Increase in the share with one more feature, for the first output, on held-out observations if there are any. */
  next_feature: number;
  /** By output, the features' share of the magnitudes of features and residual, over all positions and steps. */
  coverage?: Record<string, number | null>;
}

/** The features of a layer. Fields that are not computed yet, or were not requested, are absent. */
export interface LayerFeaturesEntry {
  /** A thumbnail for each of the K features. */
  thumbnails: string[];
  /** Chunk of the dataset examples. */
  chunk?: string;
  /** Names of features (K) from the option `features.names`, or from the page of `features.match`. */
  names?: (string | null)[];
  /** Id of each feature (K), a hash of the layer and the component's rounded direction: the same on all pages of the agent. */
  ids?: string[];
  /** For each feature (K), its counterpart on the page of `features.match`, or null. Absent without such a page. */
  matched?: (MatchedFeature | null)[];
  reduction?: ReductionErrors;
  /** Statistics of each feature (K). */
  statistics?: FeatureStatistics[];
  /** By output, how often each feature (K) raises and lowers the output: the shares of the steps at which its net attribution is positive and negative, and larger in magnitude than a fifth of the median magnitude. */
  signs?: Record<string, [number, number][]>;
  /** Receptive field of a position of the layer. */
  receptive_field?: ReceptiveField;
  facts?: CoveredAttribution;
  /** Images of dataset examples by `DENSITY x WIDTH`, one for each feature (K). */
  images?: Record<string, string[]>;
  /** For each feature (K), an image that maximizes its activation. */
  optimized?: string[];
}

/** The atlas of extra observations: cell i (row-major) of its images shows observation `indices[i]`. */
export interface AtlasEntry {
  count: number;
  images: string[];
  columns: number;
  /** Number of cells per image. */
  per_image: number;
  height: number;
  width: number;
  indices: number[];
  /** Trajectory and step of each observation; null if it is not from a trajectory. */
  origins: ([number, number] | null)[];
  /** Number of the episode that each observation is from. */
  episodes?: number[];
}

/** The features of each layer. */
export interface FeaturesSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** Every layer except the input, by its `slug` in the section `attribution`. */
  layers: Record<string, LayerFeaturesEntry>;
  /** The atlas; absent until it is computed. */
  observations?: AtlasEntry;
}

/** An output that is attributed. */
export interface OutputInfo {
  /** `value`, `action-3`, `group-0` or `greedy`. */
  id: string;
  /** `greedy` is the best action value or the largest logit. It replaces the value for agents without a value. */
  kind: "value" | "action" | "group" | "greedy";
  label: string;
  action?: number;
  group?: number;
  /** Completeness error above which points are added to the path (`attribution.refinement`): 5 % of the output's range over all steps. Absent if the output does not vary, and in older pages. */
  error_limit?: number;
}

/** Shares of an output's variance that attribution does not explain; with `variance_share`, they add up to 1. */
export interface UnexplainedVariance {
  /** Share due to the output at the baseline. This output varies if the baseline depends on the observation (`blur`), or if paths from the observation to the output bypass the layer. */
  baseline: number;
  memory: number;
  completeness_error: number;
}

/** A layer in the section, with K features. */
export interface LayerEntry {
  /** Short name. */
  name: string;
  /** Name of the layer in file names and URLs. */
  slug: string;
  /** Name of the layer's site in the network. */
  full_name: string;
  /** The features of a layer of kind `input` are its color channels. Such a layer has no residual and no completeness error. */
  kind: "layer" | "input";
  height: number;
  width: number;
  depth: number;
  /** Number of features K. */
  channels: number;
  /** Color of each feature, such as `#ff0000`. */
  colors: string[];
  /** Red, green and blue of each feature's hue, with unit L2 norm. */
  hues: number[][];
  /** By output, the mean contribution of each feature over all steps, followed by that of the residual; empty until attribution is computed. */
  effects: Record<string, number[]>;
  /** By output, the value that is shown at full brightness in each trajectory. */
  scales: Record<string, number[]>;
  /** The chunk of totals of each trajectory. */
  totals: string[];
  /** By output, the chunk of each segment of each trajectory. Groups have no chunks, because their attribution is the sum of their actions' attribution (pages of earlier versions have chunks of groups). */
  attribution: Record<string, string[][]>;
  /** By output, the 10th and 90th percentiles over all steps of each contribution, in the order of `effects`; empty until attribution is computed, absent in older pages. */
  effect_spread: Record<string, [number, number][]>;
  /** By output, the value that is shown at full opacity in each trajectory if each position has the color of its strongest feature; 99.25 % of the positions do not exceed it. Keys such as `action-3-less-mean` are for an action's attribution minus the policy's mean attribution over actions. Empty until attribution is computed. */
  limits: Record<string, number[]>;
  /** Label that the page shows instead of `name`. Residual blocks have labels such as `block 2, 16 x 16 x 32`. Layers whose names a framework generated (`features.4`, `Relu_2`) have labels such as `conv 3` or `block 2, conv 3`. */
  label?: string;
  /** By output, the share of its variance over all steps that attribution explains, 1 - var(output - features - residual) / var(output); null for an output that does not vary. Absent for the input, and until attribution is computed. */
  variance_share?: Record<string, number | null>;
  /** By output, the causes of the remaining variance; absent where `variance_share` is absent. */
  unexplained?: Record<string, UnexplainedVariance | null>;
  /** true if paths from the observation to the output bypass the layer, such as the skip connections around a ReLU inside a residual block. */
  bypassed?: boolean;
  /** By output, the share of the steps whose path has additional points. Absent for the input, and until attribution is computed. */
  refined?: Record<string, number>;
  /** For each output with an `error_limit`, the share of the steps whose completeness error is above the limit. Absent for the input, and until attribution is computed. */
  incomplete?: Record<string, number>;
  /** With `attribution.images`, by output and selection, the image of each segment of each trajectory. A selection, such as `pos-prin`, has a sign (`abs`, `pos` or `neg`) and names what is drawn: all features (`prin`), features and residual (`all`), the residual (`res`), or one feature (`1`, `2`, ...). */
  images?: Record<string, Record<string, string[][]>>;
  /** By output and selection, the filmstrip of each of `images`. */
  scrubs?: Record<string, Record<string, string[][]>>;
}

/** Attribution of outputs to layers. */
export interface AttributionSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  outputs: OutputInfo[];
  /** The layers. The input is first, if it is included. */
  layers: LayerEntry[];
  /** Baseline of attribution: `zero-input`, `mean`, `blur`, `narrow-blur`, `median` or `expected`; absent for activations of 0. If it was chosen by measured effects, the section `baseline` explains the choice. */
  baseline?: string;
  /** Name of the layer that the page opens with: the first one, which has the finest resolution. Absent in older pages, which open with the layer in the middle. */
  opening?: string;
}

/** A share of steps with a 95 % bootstrap interval over episodes. The ends of the interval are null for a single episode. */
export interface Share {
  value: number;
  low: number | null;
  high: number | null;
}

/** Summary, over all ablated steps, of how an output changes when each of K features is ablated. */
export interface AblationSummary {
  /** Mean change (K) of the output. */
  mean: number[];
  /** Mean absolute change (K). */
  mean_abs: number[];
  /** Correlation (K) of the *negative* change with the feature's net attribution: 1 if the decrease of the output is proportional to the attribution, 0 if either is constant. */
  correlation: number[];
  /** Share of the steps at which the feature with the largest attribution, by magnitude, is also the feature whose ablation changes the output most. Steps without attribution or without a change do not count. Absent for a layer with one feature, and if no step is left. */
  largest?: Share;
}

/** Results of ablating the features of a layer. */
export interface AblatedLayer {
  /** For each trajectory, the chunk with the changes at its ablated steps. */
  trajectories: string[];
  /** Summaries by output. Absent until ablation and attribution of all trajectories are finished. */
  outputs?: Record<string, AblationSummary>;
}

/** Changes of outputs when a feature is ablated. */
export interface AblationSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** Every n-th step is ablated. */
  every: number;
  /** Every layer except the input, by its `slug` in the section `attribution`. */
  layers: Record<string, AblatedLayer>;
  /** What an ablated feature is set to: its value at the baseline of attribution, or 0. */
  to: "baseline" | "zero";
}

/** A mean with its 95 % bootstrap interval over episodes, which is null if the objects are from a single episode. */
export interface MeanEffect {
  mean: number;
  low: number | null;
  high: number | null;
}

/** Effects of the objects of a type at similar distances from the player. */
export interface DistanceEffect {
  /** Smallest distance, in cells. */
  near: number;
  /** Largest distance. */
  far: number;
  count: number;
  /** Mean absolute change of the value; null without a value. */
  value: MeanEffect | null;
  policy: MeanEffect;
}

/** Effects of removing objects of a type, one at a time, and of removing all visible ones at once. */
export interface TypeEffects {
  name: string;
  /** Whether an object of the type moves by itself. */
  moves: boolean;
  /** Number of removed objects; an object counts in every frame in which it is removed. */
  count: number;
  /** Number of different objects. */
  tracks: number;
  frames: number;
  episodes: number;
  /** Mean of the value with the object minus the value without it; null without a value. For agents with action values, the value is the largest one. */
  value: MeanEffect | null;
  /** Mean absolute value of this change. */
  value_magnitude: MeanEffect | null;
  /** Mean total variation between the policies with and without the object, from 0 to 1. For action values, it is the share of objects without which a different action is best. */
  policy: MeanEffect;
  /** Mean change of the logit, or action value, of each action. */
  logits: number[];
  /** Share of the removed objects that change the value by more than `noise`; null without a value. */
  share_above_noise: number | null;
  /** Like `value`, but with all objects of the type that are seen in a frame removed at once. */
  together_value: MeanEffect | null;
  together_policy: MeanEffect;
  /** Effects in groups of about equally many objects, from the nearest to the farthest. */
  by_distance: DistanceEffect[];
}

/** An object that ended an episode, according to the analysis `failures`. */
export interface EndingObject {
  /** Number of the object's track, as in the chunk. */
  track: number;
  /** The episode's last frame. */
  frame: number;
}

/** Effects along a trajectory. */
export interface TrajectoryObjects {
  chunk: string;
  /** Names of the types by their number in the chunk. */
  types: string[];
  /** Objects that ended episodes; absent without the analysis `failures`. */
  ended?: EndingObject[];
}

/** Effects of the objects that the agent sees, measured by removing them from the state of the environment. */
export interface ObjectsSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** Effects by type, the most frequent type first. */
  types: TypeEffects[];
  trajectories: TrajectoryObjects[];
  /** Objects are removed at every n-th step. */
  every: number;
  /** Number of steps before the end of each episode at which objects are also removed. */
  last_steps: number;
  /** Number of frames whose objects were removed. */
  frames: number;
  /** Number of frames that were left out, at even distances, because there were too many objects. */
  skipped: number;
  /** Number of frames that were left out because redrawing them does not reproduce the observation. */
  undrawn: number;
  /** Whether frames are drawn as if the removed objects had never been there. Otherwise, objects are painted over. */
  exact: boolean;
  /** Unit of the changes of the value: `value`, `action value`, or `logit` for an agent with neither. */
  unit: string;
  /** Range of the value in these frames; null without a value. */
  value_range: number | null;
  /** Changes of the value up to this size, 5 % of its range, are not distinguished from 0; null without a value. */
  noise: number | null;
  /** Height of the observation, to which boxes and masks refer. */
  height: number;
  width: number;
}

/** How well attribution relative to a baseline predicts the measured effects of objects. */
export interface CandidateAgreement {
  baseline: string;
  /** Pearson correlation of predicted and measured effects; null if either is constant. */
  correlation: number | null;
  /** Share of the effects above the threshold whose sign is predicted correctly. */
  signs: number | null;
  /** Confidence interval of the mean of `correlation` and `signs`, minus that of the default baseline. The intervals of all candidates hold together with a probability of 95 %. Null for the default, and if there is too little data. */
  advantage: [number, number] | null;
}

/** The baseline that was chosen by measured effects; absent if it was not chosen in this way. */
export interface BaselineSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  chosen: string;
  /** Short name of the layer at which candidates were compared. */
  layer: string;
  /** Number of objects whose effects the choice is based on. */
  count: number;
  /** Number of these objects whose effect has a magnitude above the threshold. */
  large: number;
  episodes: number;
  /** All candidates, starting with the default. */
  candidates: CandidateAgreement[];
}

/** A value with its 95 % bootstrap interval over episodes; null if too little was measured. */
export interface AgreementNumber {
  value: number | null;
  low: number | null;
  high: number | null;
}

/** How well attribution to a layer predicts the effects of objects. */
export interface LayerAgreement {
  /** Short name. */
  layer: string;
  /** Pearson's correlation of the attribution, summed over the objects' boxes, with their effects. */
  correlation: AgreementNumber;
  /** Share of correct signs among the effects above the threshold. */
  signs: AgreementNumber;
  /** Spearman's rank correlation of the magnitudes of summed attribution and effects. */
  magnitudes: AgreementNumber;
}

/** How well the page's attribution predicts the effects of objects; absent if these were not measured. */
export interface AgreementSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** `value`, or `greedy` for an agent without a value. */
  output: string;
  /** Number of objects. */
  count: number;
  /** Number of objects whose effect has a magnitude above the threshold. */
  large: number;
  episodes: number;
  /** Magnitude of an effect above which signs are compared: 5 % of the output's range. */
  threshold: number;
  layers: LayerAgreement[];
}

/** The mean difference of a measure between paired episodes with and without an edit. Intervals are 95 % bootstrap confidence intervals. */
export interface MeasuredDifference {
  unedited: number;
  ablated: number;
  difference: number;
  interval: [number, number];
  /** The interval, corrected for the number of tests (Bonferroni). */
  corrected_interval: [number, number];
  p: number;
  /** The p-value, corrected for the number of tests (Holm). */
  adjusted_p: number;
}

/** Odds of a cause of failure: the number of failures by this cause, per failure by any other cause. None if there are no failures by other causes. */
export interface FailureOdds {
  unedited: number | null;
  ablated: number | null;
}

/** Differences in play when features are ablated, or when objects of a type are invisible. */
export interface BehaviorRow {
  /** Empty where objects are invisible. */
  layer: string;
  /** Number of the feature, counted from 1; 0 where objects are invisible. */
  feature: number;
  /** Numbers of the features that were ablated together with this one: its twins, which are active in the same places, or the other feature of a pair. Empty if the feature was ablated on its own. */
  twins: number[];
  /** Number of pairs of episodes; fewer than planned if the change of the return was clear earlier. */
  episodes: number;
  /** Mean attribution of the output to the features; null where objects are invisible. */
  attribution: number | null;
  /** Mean change of the output on the ablated steps; null without the section `ablation`, for several features, and where objects are invisible. */
  ablation: number | null;
  return_difference: number;
  interval: [number, number];
  /** p-value of the return, corrected for the number of tests. */
  adjusted_p: number;
  return: MeasuredDifference;
  length: MeasuredDifference;
  /** By cause, the share of the episodes that ended with it. */
  causes: Record<string, MeasuredDifference>;
  /** By label of an action, the share of an episode's steps at which it was taken. */
  actions: Record<string, MeasuredDifference>;
  /** Odds by cause of failure. An episode fails if its last step gives no reward, or if its time runs out. */
  failures: Record<string, FailureOdds>;
  /** The type of the objects that the unedited agent did not see; None where features were ablated. */
  invisible?: string;
}

/** An animated PNG of an episode around the first step at which the actions differ. The unedited agent is on the left, the agent without the feature on the right. */
export interface Clip {
  layer: string;
  /** Number of the feature. Features, episodes and steps are counted from 1. */
  feature: number;
  episode: number;
  step: number;
  image: string;
  /** Image of the first step at which the actions differ. */
  still: string;
  /** Return of the unedited agent in this episode, minus that of the agent without the feature. */
  lost: number;
}

/** The agent's play with each feature ablated, on the same levels as without ablation. */
export interface BehaviorSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** Number of pairs of episodes that were planned for each row. */
  episodes: number;
  /** Number of tests for which p-values are corrected. */
  tests: number;
  /** The output to which `attribution` and `ablation` of the rows refer. */
  output: string;
  /** Causes of an episode's end, starting with the most frequent one of the unedited agent. */
  causes: string[];
  /** A row for each feature and each group of twins, and, if requested, for each pair of features and each invisible type. */
  rows: BehaviorRow[];
  clips: Clip[];
  /** Names of the report's files, JSON and CSV. */
  files: string[];
}

/** An output that has maps. */
export interface MapOutput {
  /** `policy`, `value`, or, for an agent with action values, `greedy` (the best action value). For such an agent, `policy` means all action values. Signed maps of `policy` explain the logit or value of the best action. */
  id: string;
  label: string;
}

/** The position of each cell's center in the shown frames, as shares of their height and width. */
export interface CellCenters {
  rows: number[];
  columns: number[];
}

/** The maps of a method. */
export interface MethodEntry {
  /** Name of the method, as in the option `saliency.methods`. */
  name: string;
  /** Label of the method on the page. */
  label: string;
  parameters: Record<string, boolean | number | string>;
  /** Whether maps have negative values. */
  signed: boolean;
  outputs: MapOutput[];
  /** Number gh of rows of cells. */
  rows: number;
  /** Number gw of columns of cells. */
  columns: number;
  centers: CellCenters;
  /** Chunks by trajectory and segment. */
  maps: string[][];
  /** By output, the largest magnitude of each trajectory's maps; null for a trajectory without maps. */
  scales: Record<string, (number | null)[]>;
  /** By output, the 99th percentile, over all trajectories, of each map's largest magnitude. */
  percentile: Record<string, number>;
}

/** Saliency maps of the input. */
export interface SaliencySection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** Every n-th step of a trajectory has maps. */
  every: number;
  methods: MethodEntry[];
  /** On pages of recordings, a text on how the recorded outputs differ from those of the explained agents. */
  agreement?: string;
  /** For each trajectory, a chunk with these differences at the m explained steps, as shares of the range of an output: `differences` (m,) float32 and `steps` (m,) int32. Null where no outputs were recorded. */
  differences: (string | null)[];
}

/** A map made by one embedding method. */
export interface MapEntry {
  /** `state` for the recurrent state, or the name of a layer. */
  source: string;
  /** Label of the source. */
  label: string;
  /** `tsne`, `pca` or `umap`. */
  method: string;
  chunk: string;
  /** Perplexity of t-SNE; null for other methods. */
  perplexity: number | null;
  /** Number of points to which the map was fitted. The other points are placed among them. */
  fitted_on: number;
}

/** Values by which points can be colored. */
export interface MapColor {
  key: string;
  label: string;
  kind: "number" | "category";
  /** Names of a category's values 0, 1, ... */
  names?: string[];
}

/** Every step as a point in the plane, close to others where the agent's state is similar. */
export interface StateMapSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** A map for each method. */
  maps: MapEntry[];
  colors: MapColor[];
}

/** The network that the panel What if evaluates: a file beside the page, or the network of a server. */
export interface WhatIfSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** Chunk with the network in ONNX (`onnx`; see `rl_clarity.agents.onnx_export`), its initial state (`state.0`, ...), and for each blur (`blur`, `narrow-blur`) the matrices that blur columns (`blur.down`) and rows (`blur.across`). None if a server has the network. */
  network?: string;
  /** Chunk with onnxruntime-web: its module (`script`) and the WebAssembly that the module runs (`wasm`). */
  runtime?: string;
  /** SHA-256 of the network. */
  sha256: string;
  /** Short names of the layers that the network can replace, in the order of its inputs `write.0`, ... */
  layers: string[];
}

/** Mean return of complete games. */
export interface MeanReturn {
  mean: number;
  /** Standard error; null for one game. */
  error: number | null;
  episodes: number;
}

/** A checkpoint, and statistics of its trajectories. */
export interface CheckpointEntry {
  agent: string;
  recording: string;
  /** Name of the checkpoint's file, without the suffix. */
  name: string;
  /** Number of training steps; null if neither the metadata nor the file name contain it. */
  step: number | null;
  returns: MeanReturn;
  /** Mean entropy of the policy along the trajectories, in nats; null for action values. */
  entropy: number | null;
  /** Entropy of the distribution of the actions taken, in nats; null while it is not computed. */
  action_entropy: number | null;
  /** Share of each of the A actions in its trajectories. Empty until computed, like `totals` and `correlation`. */
  action_shares: number[];
  /** By output, the mean total saliency of the first method's maps along the trajectories. */
  totals: Record<string, number>;
  /** By output, the mean correlation between this checkpoint's and the last checkpoint's maps of the reference trajectory, for the first method; null where all maps are constant. */
  correlation: Record<string, number | null>;
}

/** The trajectory on which all checkpoints are compared. `trajectory` is its index in the section `trajectories` of the recording. Either a checkpoint played it, or it belongs to the last of the page's `recordings`, which has no other section. */
export interface ReferenceTrajectory {
  agent: string;
  recording: string;
  /** Name of the recording and number of the episode, if no checkpoint played it. */
  source: string | null;
  trajectory: number;
  /** Every n-th step has a map. */
  every: number;
  /** For each checkpoint, the chunk with its outputs and maps. */
  shown: string[];
  divergence: string;
}

/** The checkpoints of a training run side by side. */
export interface TrainingSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** An entry for each agent, in the order of training. */
  checkpoints: CheckpointEntry[];
  /** What `step` and the curve count: `steps` or `frames`. */
  unit: string;
  /** The learning curve; null without a log, and until it is computed. */
  curve: string | null;
  /** Name of the log, or `returns of the checkpoints`. */
  curve_source: string;
  reference: ReferenceTrajectory;
}

/** A checkpoint, and how its outputs and maps differ from those of the checkpoint before it. */
export interface UpdatedCheckpoint {
  name: string;
  /** Number of training steps; null if it is unknown. */
  step: number | null;
  /** Chunk of its outputs and maps for the observations, like the chunks of checkpoints in the section `training`. */
  shown: string;
  /** Mean changes over the observations, by name of the array in the section's chunk `changes`; empty for the first checkpoint. */
  changes: Record<string, number>;
}

/** A saliency method and the cells of its maps. */
export interface MethodDescription {
  /** Name of the method, as in the option `saliency.methods`. */
  name: string;
  /** Label of the method on the page. */
  label: string;
  parameters: Record<string, boolean | number | string>;
  /** Whether maps have negative values. */
  signed: boolean;
  outputs: MapOutput[];
  /** Number gh of rows of cells. */
  rows: number;
  /** Number gw of columns of cells. */
  columns: number;
  centers: CellCenters;
}

/** What each checkpoint changed, compared with the one before it on the same observations. */
export interface UpdatesSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** What `step` counts: `steps` or `frames`. */
  unit: string;
  /** (n,) The observations on which checkpoints are compared: steps of the reference trajectory of the section `training` or, on a page of recordings, indices of the images in `frames`. */
  steps: number[];
  /** At least two, in the order of training. */
  checkpoints: UpdatedCheckpoint[];
  /** Chunk of the arrays `policy`, `value` and, for each output with maps, `maps.OUTPUT`, (C - 1, n) float32: the changes from each of the C checkpoints to the next, at each observation. */
  changes: string;
  /** The saliency method of the maps; null without maps. */
  method: MethodDescription | null;
  /** Chunks of the images of the observations, 64 in each; null on pages about a training run. */
  frames?: string[];
}

/** A column of a table. */
export interface Column {
  key: string;
  label: string;
  /** Whether the column's numbers are frames of the row's trajectory, counted from 0. They are shown as links, counted from 1. */
  frame?: boolean;
}

/** Results of sanity checks of saliency methods. */
export interface ChecksSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  columns: Column[];
  /** Values by the column's key; a row with `trajectory` and `frame` links to the step. */
  rows: Record<string, unknown>[];
  /** Content of `checks/report.json`. */
  report: Record<string, unknown>;
}

/** How well methods and controls predict the measured effects of objects. The table is empty if the effects are not known. */
export interface CheckEffects {
  /** Text above a generic or custom panel. */
  caption?: string;
  columns: Column[];
  /** Values by the column's key; a row with `trajectory` and `frame` links to the step. */
  rows: Record<string, unknown>[];
}

/** An image of the generic panel `images`. Clicking it goes to its step. */
export interface PanelImage {
  image: string;
  label: string;
  trajectory?: number;
  frame?: number;
}

/** Example maps of the trained network and of networks with random layers. */
export interface CheckMaps {
  /** Text above a generic or custom panel. */
  caption?: string;
  images: PanelImage[];
  /** Number of images in a row; by default as many as fit. */
  columns?: number;
}

/** A bar, with an interval. */
export interface Bar {
  label: string;
  value: number;
  low?: number;
  high?: number;
  color?: string;
}

/** How much faster the output changes when pixels are removed in the order of the maps than in other orders. */
export interface CheckDeletion {
  /** Text above a generic or custom panel. */
  caption?: string;
  bars: Bar[];
  unit?: string;
}

/** How much faster the output changes when pixels are restored in the order of the maps than in other orders. */
export interface CheckInsertion {
  /** Text above a generic or custom panel. */
  caption?: string;
  bars: Bar[];
  unit?: string;
}

/** Failures with their verdicts, in increasing order of the return. */
export interface FailuresSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  columns: Column[];
  /** Values by the column's key; a row with `trajectory` and `frame` links to the step. */
  rows: Record<string, unknown>[];
}

/** Shares of the failures by cause and verdict, with 95 % intervals. */
export interface VerdictsSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  bars: Bar[];
  unit?: string;
}

/** Failures as they originally happened, each next to a continuation that survives. */
export interface FailureClips {
  /** Text above a generic or custom panel. */
  caption?: string;
  images: PanelImage[];
  /** Number of images in a row; by default as many as fit. */
  columns?: number;
}

/** A line of the generic panel `lines`. */
export interface Line {
  /** Name of the array. */
  key: string;
  label: string;
  color?: string;
  /** Limits of the line's axis; by default its smallest and largest value. */
  limits?: [number, number];
  /** Whether each value is marked with a point. This suits lines with values at few steps. */
  points?: boolean;
}

/** Reaction, avoidability and survival before the end of failed episodes, along the trajectories. */
export interface FailureTracks {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** For each trajectory, a chunk of float32 (T) arrays. */
  trajectories: string[];
  series: Line[];
}

/** Changes of the policy and the value when an object is placed, by type of object and place. */
export interface GoalsSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  columns: Column[];
  /** Values by the column's key; a row with `trajectory` and `frame` links to the step. */
  rows: Record<string, unknown>[];
}

/** For each type, the frame in which an object changes the policy most, without and with the object. */
export interface GoalImages {
  /** Text above a generic or custom panel. */
  caption?: string;
  images: PanelImage[];
  /** Number of images in a row; by default as many as fit. */
  columns?: number;
}

/** How often the agent survives failures with and without each feature of a layer. */
export interface SurvivalSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  columns: Column[];
  /** Values by the column's key; a row with `trajectory` and `frame` links to the step. */
  rows: Record<string, unknown>[];
}

/** How often the agent survives each failure when one feature of a layer is ablated, for each feature. */
export interface FailureSurvivalSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  columns: Column[];
  /** Values by the column's key; a row with `trajectory` and `frame` links to the step. */
  rows: Record<string, unknown>[];
}

/** The findings, ordered by family of tests. A row opens the frame that shows its evidence. */
export interface FindingsSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  columns: Column[];
  /** Values by the column's key; a row with `trajectory` and `frame` links to the step. */
  rows: Record<string, unknown>[];
}

/** Effects that were neither found nor excluded, or that could not be tested. */
export interface NotFoundSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  columns: Column[];
  /** Values by the column's key; a row with `trajectory` and `frame` links to the step. */
  rows: Record<string, unknown>[];
}

/** A direction in the space of the recurrent state. */
export interface DirectionEntry {
  /** `ICA 1`, ... */
  name: string;
  /** Standard deviation of the coordinate. */
  scale: number;
  /** Share of the variance that the direction explains; null except for `pca`. */
  explained: number | null;
  /** Mean |cosine| of the angle to the matching direction of fits with different seeds; null if it was not measured. */
  seed_stability: number | null;
  /** Mean |cosine| of the angle to the matching direction of fits to each half of the data; null if it was not measured. */
  half_stability: number | null;
  /** Excess kurtosis of the coordinate; null if the coordinate is constant, or until it is measured. */
  kurtosis: number | null;
  /** Whether fewer than 2 % of the steps account for more than half of the coordinate's variance. */
  rare: boolean;
  /** The values of |cosine| whose means are the stabilities: for two fits with different seeds, then for fits to the two halves. */
  fits?: number[];
  /** How much the policy changes, in nats, when the coordinate is set to its mean: a mean over the replayed steps that follow; null if it was not measured. */
  effect?: number;
  /** 95 % bootstrap interval of `effect` over the replays. */
  effect_interval?: [number, number];
}

/** The clusters of states that one method found. */
export interface ClusterEntry {
  method: string;
  count: number;
  sizes: number[];
  /** Mean adjusted Rand index with the clusters that different seeds give. */
  agreement: number | null;
}

/** Behaviors, which are clusters of short windows of steps. */
export interface BehaviorsEntry {
  count: number;
  agreement: number | null;
  chunk: string;
}

/** Correlation and influence between coordinates and later coordinates. */
export interface CausesEntry {
  /** The L lags, in steps. */
  lags: number[];
  /** Labels of the K clusters of steps, in the order of the arrays whose names end in `.by`. */
  clusters: number[];
  chunk: string;
}

/** How the outputs change after the state is changed. */
export interface RememberingEntry {
  /** Names of the C changes of the state: `reset`, `frozen`, `swapped`, `removed ICA 1`, ... */
  changes: string[];
  chunk: string;
}

/** The states of a recurrent agent, analyzed along D directions. */
export interface StatesSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** `ica`, `pca`, `nmf`, `nmf_positive` or `units`. */
  method: string;
  directions: DirectionEntry[];
  autocorrelation_lags: number[];
  /** Labels of the columns of `readout`: the actions, and `value function` if there is one. */
  outputs: string[];
  /** A chunk for each trajectory. */
  coordinates: string[];
  clusters: ClusterEntry[];
  /** By part of the analysis (`causes`, ...), the reason why it was skipped. */
  skipped: Record<string, string>;
  behaviours: BehaviorsEntry | null;
  causes: CausesEntry | null;
  memory: RememberingEntry | null;
  cards?: string;
}

/** How far back decisions depend on what was seen: the largest lag, not the mean. */
export interface ReachEntry {
  /** Largest lag with a noticeable change of the policy in at least 2 episodes and 5 % of them; 0 if there is none. */
  steps: number;
  /** Mean of the largest change at that lag, in nats, over the episodes where it is noticeable; if `steps` is 0, mean over episodes of the largest change at any lag. */
  effect: number;
  /** 95 % bootstrap interval of `effect` over episodes. */
  interval: [number, number];
  /** Number of episodes with a noticeable change at that lag. */
  count: number;
  /** Number of episodes in which that lag was tested; if `steps` is 0, in which any lag was tested. */
  episodes: number;
  /** Largest lag that was tested. */
  longest: number;
  /** If this share of the episodes had a dependence, at least one would have been found with a probability of 95 %. */
  detectable: number;
  /** Smallest change of the policy, in nats, that counts as noticeable. */
  noticeable: number;
}

/** A decision that depends on what was seen before. */
export interface DecisionEntry {
  trajectory: number;
  frame: number;
  /** The first step whose frame the decision depends on. If states were exchanged at only some of the steps, this is a lower bound. */
  begins: number;
  /** Upper bound of the first step whose frame the decision depends on. */
  until: number;
  /** Change of the policy when what was seen up to the step `until` is exchanged, in nats; mean over partners. */
  change: number;
  /** Largest change of the policy when the state is exchanged before any earlier step, in nats; mean over partners. */
  policy: number;
  /** Standard deviation over partners of the change `policy`. */
  spread: number;
}

/** An episode in which states were exchanged. */
export interface MatrixEpisode {
  trajectory: number;
  chunk: string;
}

/** Which decisions depend on what was seen before: changes of outputs when the state is exchanged for that of another episode. */
export interface MatrixSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** Number of other episodes whose states were taken for each exchange. */
  partners: number;
  /** Null if nothing was exchanged. */
  reach: ReachEntry | null;
  /** Among the decisions whose change is at least half of the largest change, the one that reaches back farthest; null if no decision depends noticeably on what was seen before. */
  strongest: DecisionEntry | null;
  episodes: MatrixEpisode[];
  /** Reason why there is no matrix. */
  skipped: string | null;
}

/** A quantity that is explained at the last step of a window. */
export interface WindowTarget {
  /** `value`, `action` or `direction-3`. */
  id: string;
  /** The value; the logit of the action taken minus the mean logit of the other actions; or a coordinate of the state before the step. */
  kind: "value" | "action" | "direction";
  label: string;
  direction?: number;
}

/** A reason why a window was chosen. */
export interface WindowReason {
  /** `asked`: the step is in `windows.at`; `decision`: the decision at the step depends on memory; `reward`: it has a reward; `entropy`: the policy has a high entropy; `end`: it ends an episode; `direction`: the coordinate of the direction is high, medium or low; `behaviour`: it is an example of the behavior; `episode`: it is one of the evenly spaced steps. */
  kind: "asked" | "decision" | "reward" | "entropy" | "end" | "direction" | "behaviour" | "episode";
  direction?: number;
  end?: "top" | "middle" | "bottom";
  behaviour?: number;
}

/** A window that is explained, with its chunk. */
export interface WindowEntry {
  trajectory: number;
  /** The step that is explained. */
  frame: number;
  /** The first step of the window. */
  first: number;
  /** Ids of the targets that are explained. */
  targets: string[];
  why: WindowReason[];
  /** The first step whose frame the decision depends on, according to the memory matrix; null if there is no such step, or if the decision is not in the matrix. A window that starts later does not show the whole dependence. */
  begins?: number;
  /** The episode whose frames at the same steps the window is compared with. It is chosen from 16 episodes whose states differ strongly from the states of this one: its state changes the policy most when it replaces the state before the explained step. Null if no other episode has this step: the window is then compared with the recording's mean frame. */
  partner?: number;
  chunk: string;
}

/** Short windows of episodes, whose last step is explained by the steps before it. */
export interface WindowsSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  targets: WindowTarget[];
  /** Paths of the gradients: `memory`, through memory alone, and with a simulator also `whole`, through memory and world. `whole` minus `memory` is the influence through the world. */
  paths: ("memory" | "whole")[];
  windows: WindowEntry[];
  /** Number of causes, in all windows, whose effects were measured by replacing their frames. Causes below a twentieth of the largest cause of their window and target are not counted. */
  measured: number;
  /** Number of these causes whose estimate differs from the measured effect by more than half of the larger of the two. */
  disagree: number;
}

/** A measure of paired episodes, as in `rl_clarity.states.Intervention`. */
export interface InterventionRow {
  measure: string;
  unedited: number | null;
  edited: number | null;
  difference: number | null;
  interval: [number | null, number | null];
  p: number | null;
  adjusted_p: number | null;
  effect: number | null;
  /** Interval of the difference, corrected for the number of measures. */
  corrected_interval?: [number | null, number | null];
}

/** A comparison of episodes with and without some directions exchanged or collapsed. */
export interface InterventionEntry {
  label: string;
  /** Directions, each with the direction that it is exchanged with, or null if it is collapsed. */
  swap: ([number, number | null])[];
  rows: InterventionRow[];
  /** An animated PNG of a pair of episodes, without and with the change. */
  clip: string;
}

/** Comparisons of episodes with and without directions of the state exchanged or collapsed. */
export interface InterventionsSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** Number of pairs of episodes. */
  episodes: number;
  interventions: InterventionEntry[];
  /** Reason why there are no interventions. */
  skipped: string | null;
}

/** How well states predict labels, compared with baselines, and whether the agent uses this information. */
export interface ProbesSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  columns: Column[];
  /** Values by the column's key; a row with `trajectory` and `frame` links to the step. */
  rows: Record<string, unknown>[];
  /** The results, as `Probe.to_dict` returns them. */
  probes: Record<string, unknown>[];
}

/** How much the value changes if blocks of the frames are removed, in order of saliency or at random (`rl_clarity.deletion_test`). `difference` is the mean over fractions of the change by saliency minus the change at random. */
export interface DeletionEntry {
  difference: number;
  interval: [number, number];
  /** Shares of the blocks that are removed. */
  fractions: number[];
  by_saliency: number[];
  random: number[];
  at: number;
  starts: number;
}

/** How much larger the error of the prediction `larger` is than that of `smaller`, on average. The average is over horizons and windows. */
export interface ErrorDifference {
  smaller: string;
  larger: string;
  difference: number | null;
  /** 95 % bootstrap interval over windows. */
  interval: [number | null, number | null];
}

/** Errors of the simulator on windows of the recording, and comparisons of its states and latents with the data. `auc` is the area under the ROC curve of a classifier of simulated and recorded states: 0.5 if they cannot be distinguished. */
export interface QualityEntry {
  windows: number;
  auc: number | null;
  /** Share of random latents that are near one of 32 latents of the data; null for fewer than 32 windows. */
  coverage: number | null;
  latent_dimensions: number | null;
  deletion: DeletionEntry | null;
  /** Mean squared errors, by kind (`frame`, `state`, `reward`) and prediction (`posterior`, `prior`, `closed_loop`, `last_frame`, `mean_frame`): three lists over horizons, with the mean, the 10th and the 90th percentile over windows. */
  errors: Record<string, Record<string, ((number | null)[])[]>>;
  /** Interval that contains the coverage for 95 % of the random choices of 32 latents. */
  coverage_interval?: [number | null, number | null];
  /** 95 % bootstrap interval of `auc` over windows. */
  auc_interval?: [number | null, number | null];
  /** By kind, comparisons of the errors of two predictions, of which `smaller` should have the smaller error. */
  differences: Record<string, ErrorDifference[]>;
}

/** The agent's simulated displacement under each constant action, and `expected`, the direction of its buttons. */
export interface CompassEntry {
  /** Labels of the actions. */
  actions: string[];
  /** Mean displacement under each action, to the right and up, in pixels. */
  displacements: [number, number][];
  expected: [number, number][];
  /** For each action, the share of starts from which the agent moves in its direction; null for an action without a direction. */
  agreement: (number | null)[];
  /** 95 % intervals of `agreement`. */
  agreement_interval: ([number | null, number | null])[];
}

/** The quality of the simulator. */
export interface SimulatorSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  quality: QualityEntry;
  compass: CompassEntry | null;
  /** Animated PNGs that show, from left to right, the recorded frames, and simulations from the posterior, from the prior with the recorded actions, and with the agent in the loop. */
  clips: string[];
  /** Number of recorded frames from which a simulation starts. */
  context: number;
  horizon: number;
  /** Options of the simulator's training. */
  fit: Record<string, unknown>;
}

/** A run on a page of recordings. */
export interface ListedRun {
  /** Id of the run's recording. */
  recording: string;
  name: string;
  /** Reason why the recording cannot be read, or null. */
  error: string | null;
}

/** A recorded episode. */
export interface EpisodeRow {
  /** Index in `runs`. */
  run: number;
  /** Index in the section `trajectories` of that run. */
  trajectory: number;
  /** Number of the episode in training. */
  episode: number;
  /** Training step at which the episode began. */
  step: number | null;
  /** Undiscounted return; null if unknown. */
  return: number | null;
  /** Number of steps. */
  length: number;
  /** Time at which the episode began, in seconds since 1970. */
  time: number | null;
  /** `done`, `time limit`, `stopped`, or `live` while the episode is still running. */
  end: string;
  /** Whether the episode has saliency maps. */
  explained: boolean;
  /** Reason why the episode cannot be shown, or null. */
  error: string | null;
  /** Mean entropy of the policy, in nats; absent if no policy was recorded. */
  entropy?: number;
  /** Mean total of the episode's saliency maps, by method and output; absent if it is not explained. */
  totals?: Record<string, Record<string, number>>;
}

/** A table of recorded episodes. */
export interface EpisodesSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** Whether a server keeps the page up to date. */
  live: boolean;
  runs: ListedRun[];
  episodes: EpisodeRow[];
  /** Log directory as the user named it; absent on static pages. */
  logdir?: string;
}

/** A trajectory on a page that a server keeps up to date. */
export interface ListedTrajectory {
  /** Number of steps; 0 for an episode that is empty, damaged, or removed by the recorder. */
  steps: number;
  /** Address of the trajectory's entry; absent if there are no steps. */
  entry?: string;
}

/** The trajectories of a run, on a served page. The page loads an entry when its trajectory is shown. */
export interface ListedTrajectoriesSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  segment: number;
  scrub: Scrub;
  film: FrameSheets;
  /** Indices are those of the episodes in the recording. */
  trajectories: ListedTrajectory[];
}

/** Tracks on the time axis of the filmstrip. */
export interface LinesSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** For each trajectory, a chunk of float32 (T) arrays. */
  trajectories: string[];
  series: Line[];
}

/** Rows and columns of maps. */
export interface MapGrid {
  height: number;
  width: number;
}

/** Maps along a trajectory. */
export interface TrajectoryMaps {
  /** Value that is shown at full brightness. */
  scale: number;
  /** For each segment of the section `trajectories`, a chunk of `codes` int8 (n, h, w, 1) and `scales` float32 (n), in the same encoding as attribution. */
  segments: string[];
}

/** Maps over the observation of the current step, without smoothing. */
export interface MapsSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  grid: MapGrid;
  sign: "positive" | "both";
  trajectories: TrajectoryMaps[];
  label?: string;
  color?: string;
}

/** Images in rows. */
export interface ImagesSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  images: PanelImage[];
  /** Number of images in a row; by default as many as fit. */
  columns?: number;
}

/** A table that can be sorted. */
export interface TableSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  columns: Column[];
  /** Values by the column's key; a row with `trajectory` and `frame` links to the step. */
  rows: Record<string, unknown>[];
}

/** Bars. */
export interface BarsSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  bars: Bar[];
  unit?: string;
}

/** Points, one for each step. */
export interface ScatterSection {
  /** Text above a generic or custom panel. */
  caption?: string;
  /** `x`, `y` float32 (n) and `trajectory`, `frame` int32 (n). */
  chunk: string;
  /** Label of the x axis. */
  x: string;
  y: string;
}

/** Size of the observations, in pixels, and of the frames that are shown. */
export interface ObservationInfo {
  height: number;
  width: number;
  channels: number;
  frame_height: number;
  frame_width: number;
  stack: number;
  /** Whether the frames show the same view as the observations. */
  aligned: boolean;
  /** The region of a frame that an observation shows; None for the whole frame. */
  region?: [number, number, number, number];
}

/** ActionInfo(label: 'str', combo: 'Sequence[str]', color: 'str') */
export interface ActionInfo {
  label: string;
  combo: string[];
  color: string;
}

/** ActionGroup(label: 'str', actions: 'Sequence[int]') */
export interface ActionGroup {
  label: string;
  actions: number[];
}

/** A factor of an action: a discrete choice, a switch, or a number (a continuous action). Its outputs are consecutive entries of `actions`. */
export interface ActionFactor {
  kind: "choice" | "switch" | "number";
  label: string;
  /** Index of the factor's first output. */
  first: number;
  /** Number of the factor's outputs: a logit for each option of a choice, the logit of a switch being on, or the mean of a number and, if there are two outputs, the logarithm of its standard deviation. */
  outputs: number;
  low?: number;
  high?: number;
  /** Standard deviation of a number, if it does not depend on the observation; 0 for a deterministic policy. */
  std?: number;
  /** Whether the action is the hyperbolic tangent of a number, scaled to the range from `low` to `high`. */
  squashed: boolean;
}

/** An agent of the page. */
export interface AgentInfo {
  network: string;
  kind: "policy" | "action_values";
  /** Whether the agent has a value function. */
  has_value: boolean;
  recurrent: boolean;
  num_actions: number;
  observation: ObservationInfo;
  /** The actions if an action is a single choice, otherwise the outputs of all factors. */
  actions: ActionInfo[];
  action_groups: ActionGroup[];
  /** Groups of actions that have the same effect. */
  equivalent_actions: number[][];
  id: string;
  /** The factors of an action; None if an action is a single choice. */
  factors?: ActionFactor[];
}

/** A recording of an agent's play. */
export interface RecordingInfo {
  env_name: string;
  agent: string;
  id: string;
  /** Name of the run, on a page that shows several runs. */
  name?: string;
}

/** Facts about how the page was made. They contain no times, paths or user names, so that repeating a run gives an identical page. */
export interface ProvenanceGroup {
  group: string;
  items: [string, string][];
}

/** A paragraph that explains a method. */
export interface Note {
  title: string;
  text: string;
}

/** A section of the manifest. */
export interface SectionOf<Kind extends string, Data> {
  agent: string;
  data: Data;
  kind: Kind;
  notes?: Note[];
  panel?: string;
  recording: string;
  title: string;
  version: number;
}

/** The sections that the package writes. */
export type Section =
  | SectionOf<"trajectories", TrajectoriesSection>
  | SectionOf<"features", FeaturesSection>
  | SectionOf<"attribution", AttributionSection>
  | SectionOf<"ablation", AblationSection>
  | SectionOf<"objects", ObjectsSection>
  | SectionOf<"baseline", BaselineSection>
  | SectionOf<"agreement", AgreementSection>
  | SectionOf<"behavior", BehaviorSection>
  | SectionOf<"saliency", SaliencySection>
  | SectionOf<"state_map", StateMapSection>
  | SectionOf<"what_if", WhatIfSection>
  | SectionOf<"training", TrainingSection>
  | SectionOf<"updates", UpdatesSection>
  | SectionOf<"checks", ChecksSection>
  | SectionOf<"check_effects", CheckEffects>
  | SectionOf<"check_maps", CheckMaps>
  | SectionOf<"check_deletion", CheckDeletion>
  | SectionOf<"check_insertion", CheckInsertion>
  | SectionOf<"failures", FailuresSection>
  | SectionOf<"verdicts", VerdictsSection>
  | SectionOf<"failure_clips", FailureClips>
  | SectionOf<"failure_tracks", FailureTracks>
  | SectionOf<"goals", GoalsSection>
  | SectionOf<"goal_images", GoalImages>
  | SectionOf<"survival", SurvivalSection>
  | SectionOf<"failure_survival", FailureSurvivalSection>
  | SectionOf<"findings", FindingsSection>
  | SectionOf<"not_found", NotFoundSection>
  | SectionOf<"states", StatesSection>
  | SectionOf<"memory_matrix", MatrixSection>
  | SectionOf<"windows", WindowsSection>
  | SectionOf<"interventions", InterventionsSection>
  | SectionOf<"probes", ProbesSection>
  | SectionOf<"simulator", SimulatorSection>
  | SectionOf<"episodes", EpisodesSection>
  | SectionOf<"trajectories", ListedTrajectoriesSection>;
