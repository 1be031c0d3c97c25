/** A mesh as its operator starts it and its app calls it: the real command, the real API. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AskView, HistoryEntry, MeshReply } from "@leafmesh/protocol";
import type { PlayedAddress } from "@leafmesh/testkit/notifiers";
import { type RunningProcess, root, startLeafmesh, startNode } from "./process.ts";

export interface RunningMesh extends RunningProcess {
  readonly url: string;
  readonly folder: string;
  readonly port: number;
  request(body: unknown): Promise<MeshReply>;
  /** Any route; the parsed body and the status. */
  call<Body = unknown>(method: string, path: string, body?: unknown): Promise<{ status: number; body: Body }>;
  asks(sessionId: string): Promise<readonly AskView[]>;
  history(sessionId: string): Promise<readonly HistoryEntry[]>;
}

export interface MeshOptions {
  readonly yaml: string;
  readonly env?: Record<string, string>;
  /** Reuse a folder, to start again on what an earlier process left. */
  readonly folder?: string;
  readonly port?: number | undefined;
  readonly args?: readonly string[];
  readonly key?: string;
  /** Vendors of push services that are played in this process. */
  readonly played?: readonly PlayedAddress[];
  /** A module that is loaded before the command. */
  readonly preload?: string;
}

/** `leafmesh run`, in a program that leads the sockets of push providers to doubles. */
const WITH_DOUBLES = join(root, "packages/cli/testing/run-with-doubles.program.ts");

function startRun(args: readonly string[], folder: string, { env, played, preload }: MeshOptions): RunningProcess {
  if (!played) return startLeafmesh(["run", ...args], env, preload);
  const file = join(folder, "played.json");
  writeFileSync(file, JSON.stringify(played));
  return startNode(["--conditions=leafmesh-source", WITH_DOUBLES, file, ...args], env);
}

/** Every body that the API answered with, for the test that looks for secrets in them. */
export const allAnswers: string[] = [];

export function newFolder(): string {
  return mkdtempSync(join(tmpdir(), "leafmesh-journey-"));
}

export async function startMesh(options: MeshOptions): Promise<RunningMesh> {
  const folder = options.folder ?? newFolder();
  writeFileSync(join(folder, "mesh.yaml"), options.yaml);
  const child = startRun(
    [
      join(folder, "mesh.yaml"),
      ...["--port", String(options.port ?? 0), "--json", "--log-level", "debug", "--log-format", "json"],
      ...(options.args ?? []),
    ],
    folder,
    options,
  );
  const ready = await child.waitFor("ready");
  const url = String(ready.url);

  const call = async <Body>(method: string, path: string, body?: unknown): Promise<{ status: number; body: Body }> => {
    const response = await fetch(url + path, {
      method,
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(options.key ? { "x-api-key": options.key } : {}),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    allAnswers.push(text);
    return { status: response.status, body: (text ? JSON.parse(text) : undefined) as Body };
  };

  return {
    ...child,
    url,
    folder,
    port: Number(new URL(url).port),
    call,
    async request(body) {
      return (await call<MeshReply>("POST", "/api/mesh/request", body)).body;
    },
    async asks(sessionId) {
      const { body } = await call<{ asks: readonly AskView[] }>("GET", `/api/sessions/${sessionId}/asks`);
      return body.asks;
    },
    async history(sessionId) {
      const { body } = await call<{ messages: readonly HistoryEntry[] }>("GET", `/api/sessions/${sessionId}/history`);
      return body.messages;
    },
  };
}
