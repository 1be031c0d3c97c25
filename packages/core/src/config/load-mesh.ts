/** mesh.yaml in, a mesh or everything that is wrong with it out. Opens nothing, calls nobody, throws nothing. */
import { createHash } from "node:crypto";
import type { ProviderRegistry } from "../providers/registry.ts";
import { type ConnectionUse, checkAgents, checkUnused } from "./check-agents.ts";
import { checkEntryPoints, checkServer } from "./check-server.ts";
import { checkTools } from "./check-tools.ts";
import { checkConnections, checkEndpoints, reportProviderIssues } from "./connections.ts";
import { type Diagnostic, formatPath, type Range } from "./diagnostic.ts";
import { judge } from "./judge.ts";
import { locate } from "./locate.ts";
import { isGiven, type Located, locatedAt, rangeAt, textOf } from "./located.ts";
import type { Connection, Mesh } from "./mesh.ts";
import { type CrossContext, gatherNames, type KnownConnections } from "./names.ts";
import { emptyFile, maxTokensOf, parseYaml } from "./parse-yaml.ts";
import { createProblems, type Problems } from "./problems.ts";
import { createReferenceResolver, type ReadFile } from "./resolve-references.ts";
import { meshFileSchema } from "./schema.ts";
import { findSecrets, type Secrets } from "./secret-ranges.ts";
import { createSourceText, DEFAULT_MAX_BYTES, decodeSource, HIGHEST_MAX_BYTES } from "./source-text.ts";
import { type Showing, toDiagnostics } from "./to-diagnostics.ts";
import { toMesh, WEBHOOK_SECRET_VARIABLE } from "./to-mesh.ts";

export interface LoadMeshOptions {
  /** The providers that connections may name. */
  readonly registry: ProviderRegistry;
  /** What `${NAME}` is looked up in. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** What `${file:path}` is read with. */
  readonly readFile: ReadFile;
  /** Absolute folder of the file: relative paths in it are relative to this. */
  readonly folder: string;
  /** How findings call the file; `mesh.yaml` if left out. */
  readonly file?: string | undefined;
  /** Larger files are refused unread: 256 KiB if left out, and never more than 10 MiB. */
  readonly maxBytes?: number | undefined;
  /**
   * Connections of the store. Given, a connection that is neither there nor in the file is an error; left out, it is a
   * warning, because it may exist where the mesh will run.
   */
  readonly knownConnections?: KnownConnections | undefined;
  /** Names of the tools of the store; given, a tool that is neither there nor in the file is an error, else a warning. */
  readonly knownTools?: ReadonlySet<string> | undefined;
  /** Whether a provider's package can be imported. Left out, packages are taken to be there. */
  readonly canResolve?: ((packageName: string) => boolean) | undefined;
}

export type LoadedMesh = {
  readonly warnings: readonly Diagnostic[];
  /** Absolute paths of the `${file:...}` that were asked for, found or not: what a watcher has to watch. */
  readonly files: readonly string[];
} & ({ readonly ok: true; readonly mesh: Mesh } | { readonly ok: false; readonly diagnostics: readonly Diagnostic[] });

/** `source` is the text of the file or its bytes. */
export function loadMesh(source: string | Uint8Array, options: LoadMeshOptions): LoadedMesh {
  const maxBytes = Math.min(options.maxBytes ?? DEFAULT_MAX_BYTES, HIGHEST_MAX_BYTES);
  const file = options.file ?? "mesh.yaml";
  const decoded = decodeSource(source, maxBytes);
  if (!decoded.ok) return finish([decoded.problem], { file, source: decoded.source, lines: "none" });
  const problems = createProblems();
  const { text } = decoded.source;
  const references = createReferenceResolver({ ...options, problems, text });
  const parsed = parseYaml(decoded.source, maxBytes, problems);
  const showing = { file, source: decoded.source, lines: "guess" } as const;
  if (!parsed.document || !parsed.trustworthy) return finish(problems.list(), showing);
  const { isRepaired } = parsed;
  const located = locate(parsed.document, { problems, references, text, isRepaired, maxValues: maxTokensOf(maxBytes) });
  const files = [...references.files];
  if (problems.hasErrors("file_too_complex")) return finish(problems.list(), showing, undefined, files);
  const secrets = findSecrets(located.root, text, options.registry);
  const known = { ...showing, lines: "known", hidden: [...secrets.ranges, ...located.dropped], secrets } as const;
  const mesh = checkDocument(located.root, createHash("sha256").update(text).digest("hex"), problems, options);
  return finish(problems.list(), known, mesh, files);
}

function finish(
  problems: ReturnType<Problems["list"]>,
  showing: Pick<Showing, "file" | "source" | "lines"> & { hidden?: readonly Range[]; secrets?: Secrets },
  mesh?: Mesh,
  files: readonly string[] = [],
): LoadedMesh {
  const { hidden = [], secrets } = showing;
  const found = toDiagnostics(problems, { ...showing, hidden, secretValues: secrets?.values ?? new Set() });
  const warnings = found.filter(({ severity }) => severity === "warning");
  const diagnostics = found.filter(({ severity }) => severity === "error");
  if (mesh && diagnostics.length === 0) return { ok: true, mesh, warnings, files };
  return { ok: false, diagnostics, warnings, files };
}

/** For a file that could not even be read: the same kind of answer. */
export function refuseFile(file: string, message: string, hint: string): LoadedMesh {
  const problem = { severity: "error", code: "file_unreadable", range: [0, 0], path: "", message, hint } as const;
  return finish([problem], { file, source: createSourceText(""), lines: "none" });
}

/** Every check, each as far as the others let it come: one wrong field does not hide what is wrong elsewhere. */
function checkDocument(root: Located, digest: string, problems: Problems, options: LoadMeshOptions): Mesh | undefined {
  if (root.kind !== "map") {
    reportNoMapping(root, problems);
    return undefined;
  }
  const { registry, env, folder, canResolve } = options;
  const context: CrossContext = {
    root,
    registry,
    problems,
    canResolve,
    names: gatherNames(root, registry, options.knownConnections, options.knownTools),
    storeIsKnown: options.knownConnections !== undefined,
    toolsAreKnown: options.knownTools !== undefined,
    publicUrl: publicUrlOf(root),
    hasWebhookSecret: Boolean(env[WEBHOOK_SECRET_VARIABLE]),
  };
  const file = judge(meshFileSchema, { root, path: [], problems });
  const endpoints = checkEndpoints(context);
  const connections = checkConnections(context);
  const use = checkAgents(context);
  checkTools(context);
  checkEntryPoints(context);
  checkServer(context);
  checkProviders(connections, use, context);
  if (!file || problems.hasErrors()) return undefined;
  checkUnused(use, context);
  const mesh = toMesh({ file, endpoints, connections, env, folder, digest });
  warnOfMissingKey(mesh, context, env);
  return mesh;
}

function reportNoMapping(root: Located, problems: Problems): void {
  const isEmpty = root.kind === "scalar" && root.value === null;
  const noMapping = {
    code: "wrong_type",
    range: [root.range[0], root.range[0] + 1],
    path: "",
    message: "a mesh file is a mapping of keys such as agents: and connections:",
    hint: "check that the right file was named",
  } as const;
  problems.error(isEmpty ? emptyFile : noMapping);
}

/** Stands for an address that has a finding of its own: it is there, so nothing may say that it is missing. */
const UNKNOWN_URL = "https://unknown.invalid";

function publicUrlOf(root: Located): string | undefined {
  const url = locatedAt(root, ["server", "public_url"]);
  return isGiven(url) ? (textOf(url) ?? UNKNOWN_URL) : undefined;
}

/** Asks the providers what only they know: whether fields fit together and whether a record can serve as a room. */
function checkProviders(connections: ReadonlyMap<string, Connection>, use: ConnectionUse, context: CrossContext): void {
  const { registry, publicUrl } = context;
  for (const { name, provider, options } of connections.values()) {
    const notifier = registry.notifiers.get(provider);
    const room = registry.rooms.get(provider);
    const isRoom = use.rooms.has(name) || !notifier;
    // The contract types `options` by provider and a registry cannot: what is passed is the provider's own output.
    const roomProviders = [...(use.roomsOfNotifiers.get(name) ?? [])];
    if (notifier?.validate) {
      reportProviderIssues(notifier.validate(options as never, { publicUrl, roomProviders }), name, context);
    }
    if (isRoom && room?.validate) reportProviderIssues(room.validate(options as never, { publicUrl }), name, context);
  }
}

/** Without a key the first model call fails; said now, while the operator is looking. */
function warnOfMissingKey(mesh: Mesh, { root, problems }: CrossContext, env: LoadMeshOptions["env"]): void {
  if (env.OPENAI_BASE_URL) return;
  const agent = [...mesh.agents.values()].find(({ endpoint }) => {
    const model = mesh.models.get(endpoint);
    return model?.kind === "openai" && !model.apiKey && model.baseUrl === undefined;
  });
  if (!agent) return;
  const path = ["agents", agent.name, "model"];
  problems.warning({
    code: "missing_variable",
    range: rangeAt(root, path),
    path: formatPath(path),
    message: "this is a model of OpenAI, and OPENAI_API_KEY is not set",
    hint: "set it before running, or name another entry of models",
  });
}
