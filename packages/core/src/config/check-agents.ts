/** Agents against the rest of the file: models and connections that do not exist or cannot do what is asked of them. */
import { matchesAction } from "./action-pattern.ts";
import { formatPath, type PathSegment, quoted } from "./diagnostic.ts";
import { entriesOf, isGiven, itemsOf, type Located, locatedAt, rangeAt, textOf } from "./located.ts";
import { splitModel } from "./model-name.ts";
import { type CrossContext, hintForName, type Role, serves, shownName } from "./names.ts";
import { BUILT_IN_NOTIFIER, BUILT_IN_ROOMS, findProvider } from "./provider-lookup.ts";
import { MAX_ACTION_PATTERNS } from "./schema.ts";
import { listNames } from "./suggest.ts";

type Path = readonly PathSegment[];

/** How the connections are used, for the checks that depend on it. */
export interface ConnectionUse {
  readonly notifiers: ReadonlySet<string>;
  readonly rooms: ReadonlySet<string>;
  /** By notifier: the providers of the rooms where its devices meet the mesh. */
  readonly roomsOfNotifiers: ReadonlyMap<string, ReadonlySet<string>>;
}

export function checkAgents(context: CrossContext): ConnectionUse {
  const notifiers = new Set<string>();
  const rooms = new Set<string>();
  const roomsOfNotifiers = new Map<string, Set<string>>();
  for (const { key: name, value: agent } of entriesOf(locatedAt(context.root, ["agents"]))) {
    if (context.problems.isFull()) break;
    checkAgentName(name, agent, context);
    checkModel(name, agent, context);
    const device = locatedAt(agent, ["device"]);
    if (device?.kind !== "map") continue;
    const path = ["agents", name, "device"];
    const notifier = checkConnectionName([...path, "connection"], "notifier", context);
    const room = checkConnectionName([...path, "room"], "room", context);
    if (notifier) notifiers.add(notifier.name);
    if (room) rooms.add(room.name);
    const roomProvider = isGiven(locatedAt(device, ["room"])) ? room?.provider : BUILT_IN_ROOMS;
    if (notifier && roomProvider !== undefined) {
      const known = roomsOfNotifiers.get(notifier.name);
      if (known) known.add(roomProvider);
      else roomsOfNotifiers.set(notifier.name, new Set([roomProvider]));
    }
    if (notifier) checkNotifierUse(path, notifier.provider, room?.provider, context);
    checkActionLists(path, context);
  }
  return { notifiers, rooms, roomsOfNotifiers };
}

/** Records that nothing uses are most likely misspelled somewhere. */
export function checkUnused(use: ConnectionUse, { root, problems }: CrossContext): void {
  for (const { key, keyRange } of entriesOf(locatedAt(root, ["connections"]))) {
    if (use.notifiers.has(key) || use.rooms.has(key)) continue;
    const path = formatPath(["connections", key]);
    problems.warning({ code: "unused", range: keyRange, path, message: "no agent uses this connection" });
  }
}

function checkAgentName(name: string, agent: Located, { root, problems }: CrossContext): void {
  const inner = textOf(locatedAt(agent, ["name"]));
  if (inner === undefined || inner === name) return;
  problems.error({
    code: "bad_value",
    ...placeOf(root, ["agents", name, "name"]),
    message: `must equal the agent's key ${quoted(name)}`,
    hint: "write the same name, or leave it out",
  });
}

function checkModel(name: string, agent: Located, { root, problems, names }: CrossContext): void {
  const written = textOf(locatedAt(agent, ["model"]));
  const path = ["agents", name, "model"];
  if (written === undefined) return;
  const { endpoint, model } = splitModel(written);
  if (!names.endpoints.has(endpoint)) {
    problems.error({
      code: "unknown_name",
      ...placeOf(root, path),
      message: `there is no entry ${shownName(root, path, endpoint)} under models`,
      hint: hintForName(root, path, endpoint, [...names.endpoints], "entries"),
    });
  } else if (model === "") {
    const message = "the name of the model is missing";
    problems.error({ code: "bad_value", ...placeOf(root, path), message, hint: "write <entry>/<model>" });
  }
}

interface FoundConnection {
  readonly name: string;
  readonly provider: string;
}

/** The connection that a device block names, when it exists and can serve in that role. */
function checkConnectionName(path: Path, role: Role, context: CrossContext): FoundConnection | undefined {
  const { root, registry, problems, names } = context;
  const name = textOf(locatedAt(root, path));
  if (name === undefined) return undefined;
  const fitting = names.fitting[role];
  if (!names.connections.has(name)) {
    reportUnknownConnection(path, name, role, context);
    return undefined;
  }
  const provider = names.connections.get(name);
  // A record whose own provider is missing or unknown has its own finding.
  if (provider === undefined || !findProvider(registry, provider)) return undefined;
  if (serves(provider, role, registry)) return { name, provider };
  problems.error({
    code: "wrong_provider",
    ...placeOf(root, path),
    message:
      role === "room"
        ? `the connection ${shownName(root, path, name)} (${provider}) rings devices and cannot be a room`
        : `the connection ${shownName(root, path, name)} (${provider}) is a room and cannot ring devices`,
    hint: `connections that can ${role === "room" ? "be a room" : "ring"}: ${listNames(fitting)}`,
  });
  return undefined;
}

function reportUnknownConnection(path: Path, name: string, role: Role, context: CrossContext): void {
  const { root, problems, names, storeIsKnown } = context;
  const label = `connections that can ${role === "room" ? "be a room" : "ring"}`;
  const hint = hintForName(root, path, name, names.fitting[role], label);
  const message = `there is no connection ${shownName(root, path, name)}`;
  const place = placeOf(root, path);
  if (storeIsKnown) problems.error({ code: "unknown_name", ...place, message, hint });
  else problems.warning({ code: "unknown_name", ...place, message: `${message} in this file`, hint });
}

function checkNotifierUse(path: Path, provider: string, room: string | undefined, context: CrossContext): void {
  const { root, registry, problems, publicUrl } = context;
  const approvalPath = [...path, "approval"];
  const isSilent = textOf(locatedAt(root, approvalPath)) === "silent";
  if (isSilent && registry.notifiers.get(provider)?.traits.silent === "never") {
    problems.error({
      code: "wrong_provider",
      ...placeOf(root, approvalPath),
      message: `the provider ${provider} cannot ring a device silently`,
      hint: "write ask",
    });
  }
  if (provider !== BUILT_IN_NOTIFIER && publicUrl === undefined) {
    const usesBuiltInRooms = room === BUILT_IN_ROOMS || !isGiven(locatedAt(root, [...path, "room"]));
    problems.warning({
      code: "missing_setting",
      ...placeOf(root, path),
      message: usesBuiltInRooms
        ? "devices elsewhere cannot reach the built-in rooms, because server.public_url is not set"
        : "devices elsewhere cannot upload photos and other large answers, because server.public_url is not set",
      hint: usesBuiltInRooms
        ? "set server.public_url to where devices reach this mesh, or name a room"
        : "set server.public_url to where devices reach this mesh",
    });
  }
}

/** `allow` and `deny` that cannot have the effect they seem to have: a deny list that denies nothing is false safety. */
function checkActionLists(path: Path, { root, problems }: CrossContext): void {
  const allow = patternsOf(locatedAt(root, [...path, "allow"]));
  const deny = patternsOf(locatedAt(root, [...path, "deny"]));
  for (const [index, pattern] of deny.entries()) {
    if (pattern === undefined) continue;
    const place = placeOf(root, [...path, "deny", index]);
    if (/^\*+$/.test(pattern)) {
      const message = "this denies every action, so the agent cannot ask a device for anything";
      problems.warning({ code: "no_effect", ...place, message, hint: "remove the device block, or deny less" });
    } else if (allow.includes(pattern)) {
      const message = "this is allowed as well, and deny wins";
      problems.warning({ code: "no_effect", ...place, message, hint: "remove it from one of the lists" });
    } else if (
      allow.length > 0 &&
      !/[*?]/.test(pattern) &&
      !allow.some((allowed) => allowed !== undefined && matchesAction(allowed, pattern))
    ) {
      const message = "this denies nothing: allow does not let the action through anyway";
      problems.warning({ code: "no_effect", ...place, message, hint: "check its spelling, or remove it" });
    }
  }
}

function patternsOf(list: Located | undefined): readonly (string | undefined)[] {
  return itemsOf(list).slice(0, MAX_ACTION_PATTERNS).map(textOf);
}

function placeOf(root: Located, path: Path) {
  return { range: rangeAt(root, path), path: formatPath(path) };
}
