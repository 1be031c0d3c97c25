/** Tools: fields that belong together, and lists of agents that lead nowhere. */
import { formatPath, type PathSegment } from "./diagnostic.ts";
import { entriesOf, isGiven, itemsOf, type Located, locatedAt, rangeAt, textOf } from "./located.ts";
import { type CrossContext, hintForName, shownName } from "./names.ts";
import { MAX_TOOLS_PER_AGENT } from "./tool-schema.ts";

/** Fields that only make sense where the mesh executes the tool. */
const OF_THE_MESH = ["url", "headers", "requires_approval"] as const;

export function checkTools(context: CrossContext): void {
  const { root, problems } = context;
  const listed = new Set<string>();
  for (const { key: name } of entriesOf(locatedAt(root, ["agents"]))) {
    if (problems.isFull()) return;
    checkList(["agents", name, "tools"], listed, context);
  }
  for (const { key: name, keyRange, value } of entriesOf(locatedAt(root, ["tools"]))) {
    if (problems.isFull()) return;
    if (value.kind !== "map") continue;
    checkFields(["tools", name], value, context);
    if (listed.has(name)) continue;
    const path = formatPath(["tools", name]);
    problems.warning({ code: "unused", range: keyRange, path, message: "no agent lists this tool" });
  }
}

function checkFields(path: readonly PathSegment[], tool: Located, { root, problems }: CrossContext): void {
  const clientOwned = locatedAt(tool, ["client_owned"]);
  if (clientOwned?.kind === "scalar" && clientOwned.origin === "unknown") return;
  if (!isTrue(clientOwned)) {
    if (isGiven(locatedAt(tool, ["url"]))) return;
    problems.error({
      code: "missing_key",
      ...placeOf(root, path),
      message: 'the key "url" is missing',
      hint: "write where the tool is called, or client_owned: true for one that the client executes",
    });
    return;
  }
  for (const field of OF_THE_MESH) {
    if (!isGiven(locatedAt(tool, [field]))) continue;
    const isApproval = field === "requires_approval";
    problems.error({
      code: "bad_value",
      ...placeOf(root, [...path, field]),
      message: isApproval
        ? "a call of a client-owned tool is never held for an approval: the mesh does not execute it"
        : "a client-owned tool is never called by the mesh",
      hint: isApproval ? "remove it; the client asks its person itself" : "remove it, or client_owned",
    });
  }
}

function isTrue(located: Located | undefined): boolean {
  return located?.kind === "scalar" && (located.value === true || located.typed === true);
}

function checkList(path: readonly PathSegment[], listed: Set<string>, context: CrossContext): void {
  const { root, problems, names } = context;
  const here = new Set<string>();
  for (const [index, item] of itemsOf(locatedAt(root, path)).slice(0, MAX_TOOLS_PER_AGENT).entries()) {
    const name = textOf(item);
    if (name === undefined) continue;
    const place = [...path, index];
    if (here.has(name)) {
      const message = "this tool is listed above";
      problems.error({ code: "bad_value", ...placeOf(root, place), message, hint: "list each tool once" });
    } else if (!names.tools.has(name)) {
      reportUnknownTool(place, name, context);
    }
    here.add(name);
    listed.add(name);
  }
}

/** Without a store a name may still lead somewhere: tools can be declared through the API. */
function reportUnknownTool(path: readonly PathSegment[], name: string, context: CrossContext): void {
  const { root, problems, names, toolsAreKnown } = context;
  const hint = hintForName(root, path, name, [...names.tools], "tools");
  const message = `there is no tool ${shownName(root, path, name)}`;
  const place = placeOf(root, path);
  if (toolsAreKnown) problems.error({ code: "unknown_name", ...place, message, hint });
  else problems.warning({ code: "unknown_name", ...place, message: `${message} in this file`, hint });
}

function placeOf(root: Located, path: readonly PathSegment[]) {
  return { range: rangeAt(root, path), path: formatPath(path) };
}
