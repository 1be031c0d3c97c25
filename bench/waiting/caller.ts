/** The app that asks: one conversation for each device, and what came of it. */
import { Agent, request } from "node:http";
import { type AskView, askViewSchema } from "@leafmesh/protocol";
import * as z from "zod";
import { deviceId, pushToken } from "./protocol.ts";

const AT_A_TIME = 64;

export interface AskOutcome {
  readonly outcome: string | undefined;
  readonly reason: string | undefined;
  /** From the handing over of the task to the end, by the mesh's own clock. */
  readonly waitedMs: number;
}

export interface Caller {
  readonly url: string;
  /** Starts an ask of each device and answers the sessions. Waits for none. */
  askAll(first: number, count: number): Promise<readonly string[]>;
  outcomesOf(sessions: readonly string[]): Promise<readonly AskOutcome[]>;
  close(): void;
}

export function createCaller(url: string): Caller {
  const agent = new Agent({ keepAlive: true, maxSockets: AT_A_TIME });

  const call = (method: string, path: string, body?: object): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const headers = body ? { "content-type": "application/json" } : {};
      const sent = request(url + path, { agent, method, headers }, (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (piece: string) => {
          text += piece;
        });
        response.on("error", reject);
        response.on("end", () => {
          if ((response.statusCode ?? 500) < 300) resolve(JSON.parse(text));
          else reject(new Error(`${method} ${path} answered ${response.statusCode} ${text.slice(0, 300)}`));
        });
      });
      sent.on("error", reject);
      sent.end(body && JSON.stringify(body));
    });

  const ask = async (index: number): Promise<string> => {
    const device = { id: deviceId(index), push_token: pushToken(index) };
    const created = await call("POST", "/api/sessions", { device });
    const { session_id } = z.object({ session_id: z.string() }).parse(created);
    await call("POST", `/api/sessions/${session_id}/query`, { query: "Is my battery OK?" });
    return session_id;
  };

  const outcomeOf = async (session: string): Promise<AskOutcome> => {
    const { asks } = z
      .object({ asks: z.array(askViewSchema).length(1) })
      .parse(await call("GET", `/api/sessions/${session}/asks`));
    const [view] = asks;
    if (!view) throw new Error(`${session} has no ask`);
    const waitedMs = (momentOf(view, "ask.settled") - momentOf(view, "ask.sent")) * 1000;
    return { outcome: view.result?.outcome, reason: view.result?.reason, waitedMs };
  };

  return {
    url,
    askAll: (first, count) => inBatches(count, (offset) => ask(first + offset)),
    outcomesOf: (sessions) => inBatches(sessions.length, (index) => outcomeOf(sessions[index] ?? "")),
    close: () => agent.destroy(),
  };
}

function momentOf({ timeline }: AskView, type: string): number {
  return timeline.find((moment) => moment.type === type)?.ts ?? Number.NaN;
}

async function inBatches<Value>(count: number, work: (index: number) => Promise<Value>): Promise<readonly Value[]> {
  const values: Value[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) values[index] = await work(index);
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, worker));
  return values;
}
