// The lanes are drawn by the code of `weir view`, which is JavaScript: what the chart uses of it.

declare module "*/view/draw.js" {
  export const AXIS: number;
  export function time(ns: number): string;
  export interface Row { sort: string; id: number; label: string; top: number; height: number }
  export interface Box { row: Row; from: number; to: number; key?: number; request?: { name: string; status: number } }
  export class Drawing {
    constructor(canvas: HTMLCanvasElement);
    static layout(cpus: number[], locks: unknown[], tasks: unknown[]): { rows: Row[]; height: number };
    colours: Record<string, string>;
    dark: boolean;
    scale: number;
    read_colours(): void;
    // What the canvas shows; null if all of it is to be drawn again.
    drawn: unknown;
    pan(view: unknown): boolean;
    at(x: number, y: number): Box | null;
  }
}

declare module "*/view/tiles.js" {
  export interface Tile { from: number; bucket_ns: number; requests: number[]; cpus: Map<number, number[]> }
  export class Tiles {
    constructor(whole: unknown, changed: () => void, address: (name: string) => string);
    kept: Map<string, Tile | null>;
    wanted: unknown[];
    under_way: number;
    failed: string;
    best(level: number, index: number): Tile | null;
    next(): void;
  }
  export function walk(lane: number[], bucket_ns: number, tile_from: number, from: number, to: number, take: (from: number, to: number, shares: number[], place: number, count: number) => void): void;
}

declare module "*/view/locks.js" {
  export function lanes_of(whole: unknown): unknown[];
}

declare module "*/view/panel.js" {
  export function legend(list: HTMLElement, has_locks: boolean, has_remarks: boolean): void;
  export function words(box: unknown, by_pid: Map<number, unknown>, choice: unknown): string;
  export function show(panel: HTMLElement, request: unknown, place: string, by_pid: Map<number, unknown>): void;
}
