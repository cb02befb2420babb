// What a cluster and the agent of business transactions tell, docs/reference/console-api.md.

export interface Strain { queue: number; wait_s: number; mem_bytes: number; mem_share: number; errors_per_s: number; error_share: number }
export interface Reading { requests_per_s: number; open_connections: number; sending_sessions: number; sent_bytes_per_s: number; cpu_share: number; strain: Strain | null }
export interface Member {
  number: number;
  name: string;
  role: string;
  state: "alive" | "draining" | "asleep" | "silent" | "unheard";
  age_s: number | null;
  silence_s: number | null;
  version: string | null;
  reading: Reading | null;
  sites: Record<string, number>;
  weight: number | null;
  packets_per_s: number | null;
}
export interface Path { path: string; requests_per_s: number; share: number; nodes: string[]; more_nodes: number }
export interface ClusterMap {
  top: { told_by: string; members: Member[]; paths: Path[] };
  heading: string;
  hottest: { node: string | null; words: string };
  warnings: string[];
  atoms: { by_node: Record<string, number>; of: number | null; words: string };
}
export interface Flight { of: "session" | "content"; from: string | null; to: string }
export interface ClusterEvent { at_us: number; what: string; move?: string; client?: string; from?: string; to?: string; member?: string; why?: string; told: string[]; flight: Flight | null }
export interface Events {
  by: string[];
  is_of_director: boolean;
  events: ClusterEvent[];
  matching: number;
  is_cut: boolean;
  unreadable: number;
  moved: { from: string; to: string; sessions: number }[];
  moved_within_s: number;
}
export interface TopRow {
  application: string;
  transaction: string;
  transactions: number;
  rate_per_s: number;
  failed: number;
  failed_share: number;
  time_share: number;
  p50_ns: number;
  p99_ns: number;
  max_ns: number;
  blocked_share: number;
  running: number;
  switch: "on" | "off" | { one_in: number };
}
export interface Top { seconds: number; rows: TopRow[]; more: number; processes: number; lost: number; rate_per_s: number; host: string; warnings: string[]; not_read: string[] }
export interface Facts {
  id: string;
  application: string;
  name: string;
  user: string | null;
  host: string;
  command: string;
  pid: number;
  status: string;
  is_failure: boolean;
  one_in: number;
  begin_unix_us: number;
  end_unix_us: number;
  duration_ns: number;
}
export interface Kept { transactions: Facts[]; looked_at: number }
export interface TreeLine extends Facts { depth: number; is_last: boolean; unknown_parent: string | null; offset_ns: number; own_ns: number; children_ns: number; blocked_ns: number; queued_ns: number; told: string[] }
export interface Tree { trace: string; transactions: number; processes: number; hosts: string[]; missing: number; lines: TreeLine[] }
