/** From what was written to what the rest of LeafMesh works with: defaults filled in, seconds to milliseconds, paths made absolute. */
import { isAbsolute, resolve } from "node:path";
import { Secret } from "@leafmesh/protocol";
import { defaultKeyName } from "./check-server.ts";
import type { EndpointFile } from "./connections.ts";
import type {
  Agent,
  Connection,
  DeclaredTool,
  DeviceBlock,
  EntryPoint,
  Limits,
  Mesh,
  ModelEndpoint,
  ServerSettings,
  StorageSettings,
} from "./mesh.ts";
import { splitModel } from "./model-name.ts";
import type { AgentFile, MeshFile } from "./schema.ts";
import type { ToolFile } from "./tool-schema.ts";

export interface MeshParts {
  readonly file: MeshFile;
  readonly endpoints: ReadonlyMap<string, EndpointFile>;
  readonly connections: ReadonlyMap<string, Connection>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly digest: string;
}

export function toMesh({ file, endpoints, connections, env, folder, digest }: MeshParts): Mesh {
  return {
    name: file.name,
    version: file.version,
    logLevel: toLogLevel(file.log_level),
    folder,
    digest,
    models: toModels(endpoints, env, folder),
    connections,
    agents: new Map(Object.entries(file.agents).map(([name, agent]) => [name, toAgent(name, agent)])),
    tools: new Map(Object.entries(file.tools).map(([name, tool]) => [name, toTool(name, tool)])),
    entryPoints: toEntryPoints(file),
    limits: toLimits(file.limits),
    server: toServer(file.server, env),
    storage: toStorage(file.storage, folder),
  };
}

function toLogLevel(written: MeshFile["log_level"]): Mesh["logLevel"] {
  switch (written) {
    case "debug":
    case "DEBUG":
      return "debug";
    case "warning":
    case "WARNING":
      return "warn";
    case "error":
    case "ERROR":
      return "error";
    case "info":
    case "INFO":
      return "info";
  }
}

function toModels(
  written: ReadonlyMap<string, EndpointFile>,
  env: MeshParts["env"],
  folder: string,
): ReadonlyMap<string, ModelEndpoint> {
  const models = new Map<string, ModelEndpoint>();
  if (!written.has("openai")) models.set("openai", { name: "openai", kind: "openai", apiKey: openAiKey(env) });
  for (const [name, entry] of written) {
    const record = toPath(entry.record, folder);
    if (entry.kind === "scripted") {
      models.set(name, { name, kind: "scripted", script: toPath(entry.script, folder), record });
      continue;
    }
    const apiKey = entry.api_key ?? (entry.base_url === undefined ? openAiKey(env) : undefined);
    const baseUrl = entry.base_url?.replace(/\/+$/, "");
    models.set(name, { name, kind: "openai", baseUrl, apiKey, headers: entry.headers, record });
  }
  return models;
}

function openAiKey(env: MeshParts["env"]): Secret | undefined {
  const key = env.OPENAI_API_KEY;
  return key ? new Secret(key) : undefined;
}

function toPath(path: string | undefined, folder: string): string | undefined {
  return path === undefined ? undefined : resolve(folder, path);
}

function toAgent(name: string, written: AgentFile): Agent {
  return {
    name,
    description: written.description,
    type: written.agent_type,
    ...splitModel(written.model),
    prompt: written.prompt,
    temperature: written.temperature,
    maxTokens: written.max_tokens,
    toolChoice: written.tool_choice,
    maxToolCallsPerMessage: written.max_tool_calls_per_message,
    toolCallTimeoutMs: toMilliseconds(written.tool_call_timeout),
    allowParallelToolCalls: written.allow_parallel_tool_calls,
    historyLimit: written.history_limit,
    tools: written.tools,
    device: written.device && toDeviceBlock(written.device),
  };
}

/** The fields that its kind needs have been found to be there. */
function toTool(name: string, written: ToolFile): DeclaredTool {
  const { description, input_schema: inputSchema, effect, url, headers, requires_approval: approval } = written;
  if (written.client_owned || url === undefined) return { kind: "client", name, description, inputSchema, effect };
  return {
    kind: "http",
    name,
    description,
    inputSchema,
    effect,
    url,
    headers:
      headers && Object.fromEntries(Object.entries(headers).map(([header, value]) => [header, new Secret(value)])),
    requiresApproval: approval ?? effect === "write",
  };
}

const JOIN_SECONDS = { ask: 60, silent: 30 } as const;

function toDeviceBlock(written: NonNullable<AgentFile["device"]>): DeviceBlock {
  return {
    connection: written.connection,
    room: written.room,
    approval: written.approval,
    allow: written.allow,
    deny: written.deny,
    joinTimeoutMs: toMilliseconds(written.join_timeout ?? JOIN_SECONDS[written.approval]),
    replyTimeoutMs: toMilliseconds(written.reply_timeout),
  };
}

function toEntryPoints({ entry_points: written, agents }: MeshFile): readonly EntryPoint[] {
  return (
    written ??
    Object.keys(agents)
      .slice(0, 1)
      .map((target) => ({ name: "default", target }))
  );
}

function toLimits(written: MeshFile["limits"]): Limits {
  return {
    runTimeoutMs: toMilliseconds(written.run_timeout),
    maxOpenAsksPerSession: written.max_open_asks_per_session,
    maxAsksPerRun: written.max_asks_per_run,
    maxSessionsPerKey: written.max_sessions_per_key,
    maxStreams: written.max_streams,
    maxConcurrentRuns: written.max_concurrent_runs,
    maxQueuedRunsPerSession: written.max_queued_runs_per_session,
    toolResultMaxChars: written.tool_result_max_chars,
  };
}

function toServer(written: MeshFile["server"], env: MeshParts["env"]): ServerSettings {
  return {
    host: written.host.replace(/^\[(.*)\]$/, "$1"),
    port: written.port,
    publicUrl: written.public_url?.replace(/\/+$/, ""),
    apiKeys: written.api_keys.map((entry, index) =>
      entry instanceof Secret ? { name: defaultKeyName(index), key: entry } : { name: entry.name, key: entry.key },
    ),
    corsOrigins: written.cors_origins,
    callbacks: toCallbacks(written.callbacks, env),
  };
}

/** What notices are signed with when the file does not say. */
export const WEBHOOK_SECRET_VARIABLE = "LEAFMESH_WEBHOOK_SECRET";

function toCallbacks(written: MeshFile["server"]["callbacks"], env: MeshParts["env"]): ServerSettings["callbacks"] {
  const fromEnvironment = env[WEBHOOK_SECRET_VARIABLE];
  const secret = written?.secret ?? (fromEnvironment ? new Secret(fromEnvironment) : undefined);
  return written || secret ? { url: written?.url, allow: written?.allow ?? [], secret } : undefined;
}

function toStorage(written: MeshFile["storage"], folder: string): StorageSettings {
  const shared = { durable: written.durable, sessionTtlMs: toMilliseconds(toSeconds(written.session_ttl)) };
  if (/^postgres(ql)?:/.test(written.url)) {
    return { url: withoutLogin(written.url), address: new Secret(written.url), kind: "postgres", ...shared };
  }
  const path = written.url.slice("sqlite:".length);
  return { url: isAbsolute(path) ? path : resolve(folder, path), kind: "sqlite", ...shared };
}

/** User, password and options of a database's address are nobody's to see; options may hold a password, too. */
function withoutLogin(address: string): string {
  return address.replace(/^(postgres(?:ql)?:\/\/)(?:[^/]*@)?([^/?]*\/[^?]*).*$/, "$1$2");
}

const SECONDS_PER = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 } as const;

function toSeconds(written: number | string): number {
  if (typeof written === "number") return written;
  const unit = written.slice(-1);
  return Number.parseFloat(written) * (isUnit(unit) ? SECONDS_PER[unit] : 1);
}

function isUnit(letter: string): letter is keyof typeof SECONDS_PER {
  return Object.hasOwn(SECONDS_PER, letter);
}

function toMilliseconds(seconds: number): number {
  return Math.round(seconds * 1000);
}
