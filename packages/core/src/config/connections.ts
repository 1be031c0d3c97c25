/** Connection records and model endpoints: which schema a record has is said by its own `provider` or `kind`. */
import * as z from "zod";
import type { ProviderDescription, ProviderIssue } from "../providers/registry.ts";
import { formatPath, type PathSegment } from "./diagnostic.ts";
import { judge } from "./judge.ts";
import { entriesOf, type Located, locatedAt, rangeAt, textOf } from "./located.ts";
import type { Connection } from "./mesh.ts";
import { type CheckContext, hintForName, shownName } from "./names.ts";
import { findProvider, packagesOf, providerNames } from "./provider-lookup.ts";
import { endpointSchemas, type openAiEndpointSchema, type scriptedEndpointSchema } from "./schema.ts";
import { listNames } from "./suggest.ts";

/** Checks every record by itself. Those that are right come back, by name. */
export function checkConnections(context: CheckContext): ReadonlyMap<string, Connection> {
  const { root, problems } = context;
  const connections = new Map<string, Connection>();
  for (const { key: name, value: record } of entriesOf(locatedAt(root, ["connections"]))) {
    if (record.kind !== "map" || problems.isFull()) continue;
    const path = ["connections", name];
    const provider = checkProvider(record, path, context);
    if (!provider) continue;
    const options = judge(provider.options, { root, path, ignore: ["provider"], isForeign: true, problems });
    if (options !== undefined) connections.set(name, { name, provider: provider.provider, options });
  }
  return connections;
}

function checkProvider(
  record: Located,
  path: readonly PathSegment[],
  { root, registry, problems, canResolve }: CheckContext,
): ProviderDescription | undefined {
  const value = locatedAt(record, ["provider"]);
  if (value?.kind === "scalar" && value.origin === "unknown") return undefined;
  const providerPath = [...path, "provider"];
  const place = { range: rangeAt(root, providerPath), path: formatPath(providerPath) };
  const names = providerNames(registry);
  const name = textOf(value);
  if (name === undefined) {
    const hint = `providers: ${listNames(names)}`;
    if (value) problems.error({ code: "wrong_type", ...place, message: "must be the name of a provider", hint });
    else
      problems.error({
        ...place,
        code: "missing_key",
        path: formatPath(path),
        message: 'the key "provider" is missing',
        hint,
      });
    return undefined;
  }
  const provider = findProvider(registry, name);
  if (!provider) {
    const message = `there is no provider ${shownName(root, providerPath, name)}`;
    const hint = hintForName(root, providerPath, name, names, "providers");
    problems.error({ code: "unknown_name", ...place, message, hint });
    return undefined;
  }
  const missing = packagesOf(registry, name).filter((packageName) => canResolve?.(packageName) === false);
  if (missing.length > 0) {
    problems.error({
      code: "missing_package",
      ...place,
      message: `the provider ${name} needs ${missing.join(" and ")}, which is not installed`,
      hint: `run: npm install ${missing.join(" ")}`,
    });
  }
  return provider;
}

/** What a provider itself found by looking at several fields. */
export function reportProviderIssues(
  issues: readonly ProviderIssue[],
  name: string,
  { root, problems }: Pick<CheckContext, "root" | "problems">,
): void {
  for (const issue of issues) {
    const path = ["connections", name, ...issue.path];
    const exists = locatedAt(root, path) !== undefined;
    const range = exists ? rangeAt(root, path) : rangeAt(root, ["connections", name]);
    problems.error({ code: "bad_value", range, path: formatPath(path), message: issue.message, isForeign: true });
  }
}

export type EndpointFile = z.output<typeof openAiEndpointSchema> | z.output<typeof scriptedEndpointSchema>;

/** The schema of a `models` entry by its `kind`; `undefined` when there is no such kind. */
export function endpointSchemaOf(entry: Located): z.ZodType<EndpointFile> | undefined {
  if (locatedAt(entry, ["kind"]) === undefined) return endpointSchemas.openai;
  const kind = textOf(locatedAt(entry, ["kind"]));
  return kind === "openai" || kind === "scripted" ? endpointSchemas[kind] : undefined;
}

export function checkEndpoints({ root, problems }: CheckContext): ReadonlyMap<string, EndpointFile> {
  const endpoints = new Map<string, EndpointFile>();
  for (const { key: name, value: entry } of entriesOf(locatedAt(root, ["models"]))) {
    if (entry.kind !== "map" || problems.isFull()) continue;
    const path = ["models", name];
    const schema = endpointSchemaOf(entry);
    const endpoint = schema ? judge(schema, { root, path, problems }) : judge(kindOnly, { root, path, problems });
    if (schema && endpoint && "kind" in endpoint) endpoints.set(name, endpoint as EndpointFile);
  }
  return endpoints;
}

const kindOnly = z.looseObject({ kind: z.enum(["openai", "scripted"]) });
