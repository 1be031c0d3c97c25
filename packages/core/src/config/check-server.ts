/** Entry points, the server's address and its keys, as far as one field alone cannot tell. */
import { formatPath, type PathSegment } from "./diagnostic.ts";
import { isGiven, itemsOf, type Located, locatedAt, rangeAt, textOf } from "./located.ts";
import { type CrossContext, hintForName, shownName } from "./names.ts";
import type { Problems } from "./problems.ts";

export function checkEntryPoints({ root, problems, names }: CrossContext): void {
  const taken = new Set<string>();
  for (const [index, item] of itemsOf(locatedAt(root, ["entry_points"])).entries()) {
    if (problems.isFull()) return;
    const target = textOf(locatedAt(item, ["target"]));
    const path = ["entry_points", index, "target"];
    if (target !== undefined && !names.agents.has(target)) {
      problems.error({
        code: "unknown_name",
        range: rangeAt(root, path),
        path: formatPath(path),
        message: `there is no agent ${shownName(root, path, target)}`,
        hint: hintForName(root, path, target, [...names.agents], "agents"),
      });
    }
    takeOnce(taken, textOf(locatedAt(item, ["name"])), ["entry_points", index, "name"], "entry point", root, problems);
  }
}

export function checkServer({ root, problems, hasWebhookSecret }: CrossContext): void {
  const host = textOf(locatedAt(root, ["server", "host"]));
  const keys = locatedAt(root, ["server", "api_keys"]);
  const hasNoKeys = keys === undefined || (keys.kind === "list" && keys.items.length === 0);
  if (host !== undefined && hasNoKeys && !isLoopback(host)) {
    problems.error({
      code: "unsafe_setting",
      range: rangeAt(root, ["server", "host"]),
      path: "server.host",
      message: "without server.api_keys anyone who reaches this address could use the mesh",
      hint: "add a key to server.api_keys, or listen on 127.0.0.1",
    });
  }
  checkApiKeys(keys, root, problems);
  const noticesPath = ["server", "callbacks", "url"];
  const isSigned = hasWebhookSecret || isGiven(locatedAt(root, ["server", "callbacks", "secret"]));
  if (isGiven(locatedAt(root, noticesPath)) && !isSigned) {
    problems.error({
      code: "missing_setting",
      range: rangeAt(root, noticesPath),
      path: "server.callbacks.url",
      message: "nothing signs the notices that go there",
      hint: "set server.callbacks.secret or LEAFMESH_WEBHOOK_SECRET",
    });
  }
}

/** A key without a name is called by its place in the list. */
export function defaultKeyName(index: number): string {
  return `key-${index + 1}`;
}

function checkApiKeys(keys: Located | undefined, root: Located, problems: Problems): void {
  const names = new Set<string>();
  const values = new Set<string>();
  for (const [index, item] of itemsOf(keys).entries()) {
    if (problems.isFull()) return;
    const path = ["server", "api_keys", index];
    const isNamed = item.kind === "map";
    const name = isNamed ? textOf(locatedAt(item, ["name"])) : defaultKeyName(index);
    takeOnce(names, name, isNamed ? [...path, "name"] : path, "key of this name", root, problems);
    const value = isNamed ? textOf(locatedAt(item, ["key"])) : textOf(item);
    takeOnce(values, value, isNamed ? [...path, "key"] : path, "entry with this key", root, problems);
  }
}

function takeOnce(
  taken: Set<string>,
  name: string | undefined,
  path: readonly PathSegment[],
  what: string,
  root: Located,
  problems: Problems,
): void {
  if (name === undefined) return;
  if (taken.has(name)) {
    problems.error({
      code: "bad_value",
      range: rangeAt(root, path),
      path: formatPath(path),
      message: `there is another ${what} above`,
      hint: "each must be unique",
    });
  }
  taken.add(name);
}

/** 127.0.0.0/8, ::1 and localhost: what only this machine can reach. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, "$1");
  return name === "localhost" || name === "::1" || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(name);
}
