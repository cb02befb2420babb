// The calls of docs/reference/console-api.md.

import { fetched } from "./token.ts";

export interface Part { name: string; words: string }
export interface Server { address: string; categories: string[]; usual_categories: string[] }
export interface Has { api: number; version: string; rooms: string[]; directories: string[]; parts: Part[]; server: Server | null; servers: Server[]; cluster: { directory: string } | null; agent: { directory: string } | null; replay: { recording: string } | null }
export interface State {
  run: string;
  state: "waiting" | "reading" | "open" | "failed";
  step?: "answer" | "chart" | "requests";
  events?: number;
  error?: string;
  has: { answer: boolean; chart: boolean; requests: boolean };
}
export interface Run {
  run: string;
  host: string | null;
  command: string | null;
  sources: string[];
  begin_unix_ns: string | null;
  duration_ns: number | null;
  events: number;
  bytes: number;
  refused?: string;
  opened: State | null;
}
export type Parts = Record<string, number>;
export interface Times { mean: number; p50: number; p90: number; p99: number; p99_9: number; max: number; min: number; stdev: number }
export interface Cause { part: string; mean_ns: number; share: number; who: [string, number][]; text: string; held_by?: { class: string; did: string; share: number }[] }
export interface SlowCause { part: string; excess_ns: number; share: number; who: [string, number][]; text: string }
export interface Slice { at_s: number; answered: number; errors: number; p50_ns: number | null; p99_ns: number | null; parts_ns: Parts }
export interface Explanation {
  subject: string;
  boundary: string;
  host: string;
  duration_s: number;
  requests: number;
  rate_per_s: number;
  bytes: number;
  errors: Record<string, number>;
  status: Record<string, number>;
  response_ns: Times | null;
  success_fraction: number | null;
  joined_fraction: number;
  noise_floor: number | null;
  parts_ns: Parts;
  median_parts_ns: Parts;
  slow_parts_ns: Parts;
  median_response_ns: number;
  slow_response_ns: number;
  percentiles?: { percentile: number; response_ns: number; generator: number; network: number; server: number; unattributed: number }[];
  causes: Cause[];
  slow_causes: SlowCause[];
  transactions: { name: string; count: number; response_ns: Times | null; parts_ns: Parts }[];
  holders?: { lock: string; holder: string; request: string | null; mean_ns: number }[];
  course?: { slice_s: number; slices: Slice[] };
  queries: { server: string; text: string; count: number; mean_ns: number; max_ns: number }[];
  decisions?: { at_s: number; text: string }[];
  observer_cost: { events: number; lost: number; cpu_share: number };
  warnings: string[];
  not_observed: string[];
}
export interface Request {
  id: number;
  at_ns: number;
  response_ns: number;
  name: string;
  class: string;
  status: number | null;
  outcome: string;
  joined: number;
  unjoinable: string | null;
  response_bytes: number | null;
  client: string | null;
  part_ns?: number;
  parts_ns: Parts;
}
export interface Page { requests: Request[]; count: number; count_is_cut: boolean; offset: number; limit: number }
export interface Step { at_ns: number; duration_ns: number; part: string; pid: number | null; process: string | null; waiter: number | null; culprit: string | null; host_name: string | null }
export interface Single {
  request: Record<string, string | number | null>;
  steps: Step[];
  steps_are_cut: boolean;
  sums: { part: string; culprit: string | null; ns: number; steps: number }[];
}
export interface Difference {
  verdict: "longer" | "shorter" | "within_noise" | "not_known";
  mean_ns: number;
  noise_ns: number | null;
  parts: { part: string; ns: number; share: number | null; who: string | null }[];
  text: string;
}
export interface Side {
  run: string;
  host: string;
  requests: number;
  rate_per_s: number;
  errors: number;
  response_ns: Times | null;
  noise_floor: number | null;
  parts_ns: Parts;
  median_parts_ns: Parts;
  slow_parts_ns: Parts;
  difference?: Difference;
}
export interface Table { name: string; doc: string; columns: { name: string; kind: string; doc: string }[] }
export interface Questions { tables: Table[]; saved: { name: string; asks: string; sql: string }[] }
export interface Rows { columns: string[]; rows: (string | number | null)[][]; is_cut: boolean }
export type Choices = Record<"class" | "status" | "outcome", [string | number | null, number][]>;
// What a running server tells, docs/reference/admin-address.md and watch-stream.md.
export interface Figures {
  begin_unix_s: number;
  up_s: number;
  open_peak: number;
  requests: number;
  client_errors: number;
  server_errors: number;
  sent_bytes: number;
  timed: number;
  p50_us: number;
  p99_us: number;
  max_us: number;
}
export interface Pace { requests_per_min: number; sent_bytes_per_min: number; client_errors_per_min: number; server_errors_per_min: number }
export interface Mark { number: number; unix_ms: number; kind: string; words: string }
export interface Activity {
  from_unix_s: number;
  to_unix_s: number;
  step_s: number;
  steps: (Figures & Pace)[];
  whole: Figures;
  marks: Mark[];
  torn_records: number;
  writing: { failing: string | null; waiting_minutes: number; lost_minutes: number };
}
export interface Connection {
  id: string;
  client: string;
  protocol: string;
  is_secure: boolean;
  age_ms: number;
  state: string;
  requests: number | null;
  received_bytes: number | null;
  sent_bytes: number | null;
  under_way: { stream: number | null; request: string | null; sent_bytes: number }[];
}
export interface Now { over_s: number; requests_per_s: number; client_errors_per_s: number; server_errors_per_s: number; refused_per_s: number; sent_bytes_per_s: number; connections: number; timed: number | null; p99_us: number | null }
export interface Connections { connections: Connection[]; left_out: number; silent_loops: number; may_stop?: boolean }
export interface Past { began_unix_ms: number; client: string; host: string; method: string; path: string; query: string; protocol: string; status: number; sent_bytes: number; duration_us: number }
export interface History { requests: Past[]; matching: number; looked_through?: number; kept: number; gone: number; missed: number }
export interface Watched { type: "request"; number: number; at_unix_us: number; session: number; method: string; target: string; status: number; whole_us: number; told: [string, string[]][] }
export type Line = Watched | { type: "left" | "end"; left_out: number; dropped: number; why?: string } | { type: "begin"; version: number } | { type: "gone"; why: string };
// What a load tells while it runs, docs/reference/run-format.md.
export interface LoadPoint {
  start_s: number;
  length_s: number;
  requests: number;
  rate_per_s: number;
  successes: number;
  success_rate: number | null;
  unexpected: number;
  errors: Record<string, number>;
  failed: number;
  failed_per_s: number;
  stopped: number;
  dropped: number;
  bytes: number;
  bytes_per_s: number;
  connections: number;
  late: number;
  waited: number;
  generator_cpu_share: number;
  generator_runnable_share: number;
  latency_ns: { min: number; mean: number; p50: number; p90: number; p99: number; max: number } | null;
}
export type LoadState = "running" | "ending" | "ended" | "interrupted" | "failed" | "lost" | "not_known";
export interface LoadHead {
  run: string;
  state: LoadState;
  process: { pid: number };
  target: string;
  manner: string;
  begin_unix_ms: number;
  told_unix_ms: number;
  elapsed_s: number;
  planned_s: number | null;
  planned_requests: number | null;
  share: number;
  left_s: number | null;
  interval_s: number;
  points_left_out: number;
  silent_s: number | null;
  is_recorded: boolean;
  whole: LoadPoint;
}
export interface Latest { responses: number; span_ns: number; response_ns: number; parts_ns: Parts }
export interface Load extends LoadHead { points: LoadPoint[]; latest: Latest | null }
export interface Loads { loads: LoadHead[]; unreadable: { run: string; error: string }[]; is_cut: boolean }
export type Given = Record<string, string | number | undefined>;

export class Refused extends Error {
  constructor(message: string, readonly status: number) {
    super(message);
  }
}

export function address(call: string, given: Given = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) if (value !== undefined && value !== "") query.set(name, String(value));
  return `api/1/${call}${query.size > 0 ? `?${query}` : ""}`;
}

async function answered<T>(answer: Response): Promise<T> {
  const told: unknown = await answer.json().catch(() => ({ error: `the console answered ${answer.status}` }));
  if (answer.ok) return told as T;
  if (answer.status === 401) throw new Refused("The server tells nothing without its token; reload the page to give it.", 401);
  const error = (told as { error?: unknown }).error;
  throw new Refused(typeof error === "string" ? error : `the console answered ${answer.status}`, answer.status);
}

export async function get<T>(call: string, given: Given = {}, signal?: AbortSignal): Promise<T> {
  return answered<T>(await fetched(address(call, given), signal ? { signal } : {}));
}

export async function post<T>(call: string, given: Given = {}, body = "", signal?: AbortSignal): Promise<T> {
  const headers = { "X-Weir-Console": "1", "Content-Type": "text/plain; charset=utf-8" };
  return answered<T>(await fetched(address(call, given), { method: "POST", headers, body, ...(signal ? { signal } : {}) }));
}

// The longest line of a stream, in characters.
const MOST_LINE = 4 << 20;

// Takes the lines of an answer that goes on, until it ends; empty lines only tell that it does go on.
export async function follow<T>(call: string, given: Given, signal: AbortSignal, take: (line: T) => void): Promise<void> {
  const answer = await fetched(address(call, given), { signal });
  if (!answer.ok || !answer.body) return void (await answered(answer));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > MOST_LINE) throw new Error("the console sent a line that is too long");
    for (const line of lines) if (line !== "") take(JSON.parse(line) as T);
  }
}
