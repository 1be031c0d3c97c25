import { CLIENT_EXECUTED_TOOLS } from "./client-executed-tools.manifest.ts";
import { DEVICE_TOOL_BRIDGE } from "./device-tool-bridge.manifest.ts";
import type { Manifest } from "./manifest.ts";

export const PROMISES = { ...DEVICE_TOOL_BRIDGE, ...CLIENT_EXECUTED_TOOLS } satisfies Manifest;

export type PromiseId = keyof typeof PROMISES & string;

/**
 * The name of a test that holds promises of a page: `it(cites("resolves …", "bridge.flow.resolve"), …)`. Ids are written
 * out there, so that the test of the manifests finds them.
 */
export function cites(name: string, first: PromiseId, ...more: readonly PromiseId[]): string {
  return `${name} [${[first, ...more].join(", ")}]`;
}
