/**
 * A loaded mesh: validated, references resolved, durations in milliseconds. What the rest of LeafMesh works with;
 * `schema.ts` is what an operator writes. Immutable: a reload makes a new one.
 */
import type { Approval, Secret } from "@leafmesh/protocol";

export interface Mesh {
  readonly name: string;
  /** The operator's own version of the file. */
  readonly version: string;
  /** The least important log lines that are written. */
  readonly logLevel: "debug" | "info" | "warn" | "error";
  /** Absolute folder of mesh.yaml; relative paths inside it are relative to this. */
  readonly folder: string;
  /** SHA-256 of the file's text, to tell one load from the next. */
  readonly digest: string;
  readonly models: ReadonlyMap<string, ModelEndpoint>;
  readonly connections: ReadonlyMap<string, Connection>;
  readonly agents: ReadonlyMap<string, Agent>;
  /** Entries of `tools`; left out, there are none. */
  readonly tools?: ReadonlyMap<string, DeclaredTool> | undefined;
  /** Never empty: a mesh without `entry_points` gets one named `default` for its first agent. */
  readonly entryPoints: readonly EntryPoint[];
  readonly limits: Limits;
  readonly server: ServerSettings;
  readonly storage: StorageSettings;
}

/** A `models:` entry, or the built-in `openai`. */
export interface ModelEndpoint {
  readonly name: string;
  readonly kind: "openai" | "scripted";
  readonly baseUrl?: string | undefined;
  readonly apiKey?: Secret | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** `kind: scripted`: absolute path of the script or cassette. */
  readonly script?: string | undefined;
  /** Absolute path of the cassette that this endpoint's calls are recorded into. */
  readonly record?: string | undefined;
}

/** A notifier or room record. `options` is the output of the provider's own schema. */
export interface Connection {
  readonly name: string;
  readonly provider: string;
  readonly options: unknown;
}

export interface Agent {
  readonly name: string;
  readonly description?: string | undefined;
  readonly type: "llm";
  /** Which `models:` entry, and the model's name there. */
  readonly endpoint: string;
  readonly model: string;
  readonly prompt: string;
  readonly temperature?: number | undefined;
  readonly maxTokens?: number | undefined;
  readonly toolChoice: "auto" | "required" | "none";
  /** Tool calls that one message may lead to. */
  readonly maxToolCallsPerMessage: number;
  readonly toolCallTimeoutMs: number;
  readonly allowParallelToolCalls: boolean;
  /** Messages of the conversation that the model is shown. */
  readonly historyLimit: number;
  readonly device?: DeviceBlock | undefined;
  /** Names of declared tools, of the file or of the store; left out, there are none. */
  readonly tools?: readonly string[] | undefined;
}

/** A tool that agents may list. `client`: the client that submits the run executes it. `http`: the mesh calls an address. */
export type DeclaredTool = ClientTool | HttpTool;

interface ToolDeclaration {
  /** What the model calls it. */
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments, an object. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  readonly effect: "read" | "write";
}

export interface ClientTool extends ToolDeclaration {
  readonly kind: "client";
}

export interface HttpTool extends ToolDeclaration {
  readonly kind: "http";
  readonly url: string;
  readonly headers?: Readonly<Record<string, Secret>> | undefined;
  /** A person decides before it is called. */
  readonly requiresApproval: boolean;
}

/** The `device:` block. */
export interface DeviceBlock {
  readonly connection: string;
  /** `undefined` means the built-in LeafMesh rooms. */
  readonly room?: string | undefined;
  readonly approval: Approval;
  /** Glob patterns over action names; `undefined` allows all. `deny` wins. */
  readonly allow?: readonly string[] | undefined;
  readonly deny?: readonly string[] | undefined;
  readonly joinTimeoutMs: number;
  readonly replyTimeoutMs: number;
}

export interface EntryPoint {
  readonly name: string;
  readonly target: string;
  readonly description?: string | undefined;
}

export interface Limits {
  readonly runTimeoutMs: number;
  readonly maxOpenAsksPerSession: number;
  readonly maxAsksPerRun: number;
  readonly maxSessionsPerKey: number;
  readonly maxStreams: number;
  readonly maxConcurrentRuns: number;
  readonly maxQueuedRunsPerSession: number;
  /** Characters of one tool result that the model is shown. */
  readonly toolResultMaxChars: number;
}

export interface ServerSettings {
  readonly host: string;
  readonly port: number;
  readonly publicUrl?: string | undefined;
  readonly apiKeys: readonly ApiKey[];
  /** Browser origins that may call the API. */
  readonly corsOrigins: readonly string[];
  readonly callbacks?: CallbackSettings | undefined;
}

/** Notices to the `callback_url` of a run, and to the operator's own address. */
export interface CallbackSettings {
  /** Where the app is told of devices whose push tokens are dead; `undefined`: it is not told. */
  readonly url?: string | undefined;
  /** Origins outside the public internet that may be named all the same; a port of `*` is any. */
  readonly allow: readonly string[];
  /** What notices are signed with; without one no run may name a `callback_url`. */
  readonly secret?: Secret | undefined;
}

export interface ApiKey {
  /** Shown in logs and used as the owner of sessions. */
  readonly name: string;
  readonly key: Secret;
}

export interface StorageSettings {
  /** Absolute path of the SQLite file, or the `postgres://` address without its login and options: may be shown. */
  readonly url: string;
  /** `kind: postgres`: the whole address. */
  readonly address?: Secret | undefined;
  readonly kind: "sqlite" | "postgres";
  /** SQLite: FULL sync with group commit instead of NORMAL. */
  readonly durable: boolean;
  readonly sessionTtlMs: number;
}
