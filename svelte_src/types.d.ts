// Shapes that modules of all folders share. The sections of a manifest are in data/sections.d.ts.
import type { Readable, Writable } from "svelte/store";
import type { defineSelection } from "./kit/page/selection.js";
import type { createShell } from "./kit/shell/page.js";

declare global {
  interface Uint8ArrayConstructor {
    /** Newer browsers have it. */
    fromBase64?(text: string): Uint8Array<ArrayBuffer>;
  }
}

/** An array of a chunk, row by row. */
export interface NumberArray {
  data: TypedArray;
  shape: number[];
}

export type TypedArray = Uint8Array | Int8Array | Uint16Array | Int16Array | Int32Array | Float32Array | Float64Array;

export interface Chunk {
  arrays: Record<string, NumberArray>;
  meta?: object;
}

/** A step of an episode. */
export interface Moment {
  episode: number;
  frame: number;
}

/** A clock of kit/time/clock.js. */
export interface Clock extends Readable<Moment & { window: number }> {
  /** The checkpoint whose episodes these are, as in a brush. */
  checkpoint: string;
  /** The step under the pointer, or null. */
  hovered: Writable<number | null>;
  readonly now: Moment & { window: number };
  /** Steps of an episode; by default of the one that is shown. */
  steps(episode?: number): number;
  go(moment: Moment): void;
  toFrame(frame: number): void;
  zoom(factor: number): void;
}

/**
 * A selection has the fields that a kind of page declares, each of which is any value: their types in kit/page/fields.js keep
 * them in range when the page runs.
 */
export interface SelectionStore extends Readable<any> {
  readonly now: any;
  history: Readable<{ canUndo: boolean; canRedo: boolean }>;
  change(patch: object, kind?: string | null): void;
  undo(): void;
  redo(): void;
}

/** A page, as components get it from the context `PAGE`; `extend` of its kind adds the rest. */
export interface Page extends ReturnType<typeof createShell> {
  manifest: any;
  selection: SelectionStore;
  clock: Clock;
  /** The fields of its selection, and how the address holds them. */
  codec: ReturnType<typeof defineSelection>;
  keys: any[];
  actions?: Record<string, (key: string) => void>;
  [extension: string]: any;
}

/** An option of a field: a value, or a function of the manifest and the values of the fields before it. */
export type Option<T> = T | ((manifest: any, selection: any) => T);
