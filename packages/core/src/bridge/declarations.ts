/** Which tools of the client's device a run has. */
import {
  type DeviceTool,
  deviceToolSchema,
  MAX_DEVICE_TOOL_SCHEMA_BYTES,
  MAX_DEVICE_TOOLS,
  MAX_DEVICE_TOOLS_BYTES,
  utf8Length,
} from "@leafmesh/protocol";

/** One thing that is wrong with a declaration; `field` is a path such as `context.device_tools.0.tool_id`. */
export interface DeclarationProblem {
  readonly field: string;
  readonly message: string;
}

export type Declaration =
  | { readonly ok: true; readonly tools: readonly DeviceTool[] }
  | { readonly ok: false; readonly problems: readonly DeclarationProblem[] };

/** Where a declaration lies in the context of a session or a message. */
export const DEVICE_TOOLS_KEY = "device_tools";

const ROOT = `context.${DEVICE_TOOLS_KEY}`;
/** Names of the mesh's own tools that fit the client's namespace. */
const RESERVED: ReadonlySet<string> = new Set(["device_action"]);
const MAX_PROBLEMS = 20;

/** All or nothing: one entry that is wrong makes the whole declaration wrong. */
export function parseDeclaration(value: unknown): Declaration {
  if (!Array.isArray(value)) return refused({ field: ROOT, message: "must be an array" });
  if (value.length > MAX_DEVICE_TOOLS) {
    return refused({ field: ROOT, message: `has ${value.length} tools; at most ${MAX_DEVICE_TOOLS} may be declared` });
  }
  if (utf8Length(JSON.stringify(value)) > MAX_DEVICE_TOOLS_BYTES) {
    return refused({ field: ROOT, message: `is larger than ${MAX_DEVICE_TOOLS_BYTES} bytes of JSON` });
  }
  const tools: DeviceTool[] = [];
  const problems: DeclarationProblem[] = [];
  const ids = new Set<string>();
  for (const [index, entry] of value.entries()) {
    const parsed = deviceToolSchema.safeParse(entry);
    if (!parsed.success) {
      for (const issue of parsed.error.issues) problems.push(...entryProblems(`${ROOT}.${index}`, issue));
      continue;
    }
    const tool = parsed.data;
    const problem = ownProblem(tool, ids);
    if (problem) problems.push({ field: `${ROOT}.${index}.${problem.field}`, message: problem.message });
    ids.add(tool.tool_id);
    tools.push(tool);
  }
  return problems.length > 0 ? { ok: false, problems: problems.slice(0, MAX_PROBLEMS) } : { ok: true, tools };
}

/** What a run gets, decided when its message is taken: a declaration in the message counts, else the session's. */
export type BoundTools =
  | { readonly status: "bound"; readonly tools: readonly DeviceTool[] | undefined }
  /** The message's own declaration is wrong: the message is not to be taken. */
  | { readonly status: "refused"; readonly problems: readonly DeclarationProblem[] }
  /** A declaration that was stored earlier is wrong: the run has no tools of the client. */
  | { readonly status: "dropped"; readonly problems: readonly DeclarationProblem[] };

type Context = Readonly<Record<string, unknown>>;

/** `given` is the context of the message, `stored` that of the session. */
export function bindDeviceTools(given: Context | undefined, stored: Context | undefined): BoundTools {
  const declares = given !== undefined && Object.hasOwn(given, DEVICE_TOOLS_KEY);
  const context = declares ? given : stored;
  if (!context || !Object.hasOwn(context, DEVICE_TOOLS_KEY)) return { status: "bound", tools: undefined };
  const declaration = parseDeclaration(context[DEVICE_TOOLS_KEY]);
  if (!declaration.ok) return { status: declares ? "refused" : "dropped", problems: declaration.problems };
  return { status: "bound", tools: declaration.tools.length > 0 ? declaration.tools : undefined };
}

function ownProblem({ tool_id, parameters }: DeviceTool, earlier: ReadonlySet<string>): DeclarationProblem | undefined {
  if (RESERVED.has(tool_id)) return { field: "tool_id", message: `${tool_id} is a tool of the mesh itself` };
  if (earlier.has(tool_id)) return { field: "tool_id", message: `duplicate: ${tool_id} is declared twice` };
  if (utf8Length(JSON.stringify(parameters)) > MAX_DEVICE_TOOL_SCHEMA_BYTES) {
    return { field: "parameters", message: `is larger than ${MAX_DEVICE_TOOL_SCHEMA_BYTES} bytes of JSON` };
  }
  return undefined;
}

type Issue = NonNullable<ReturnType<typeof deviceToolSchema.safeParse>["error"]>["issues"][number];

function entryProblems(field: string, issue: Issue): DeclarationProblem[] {
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({ field: `${field}.${key}`, message: "unknown field" }));
  }
  return [{ field: [field, ...issue.path].join("."), message: issue.message }];
}

function refused(problem: DeclarationProblem): Declaration {
  return { ok: false, problems: [problem] };
}
