/** A conversation with calls on it, on the mesh double. */
import { createClient, createExecutor, type ExecutorEvent, type ExecutorOptions } from "../src/index.ts";
import { createHastyClock } from "./hasty-clock.ts";
import type { MeshDouble } from "./mesh-double.ts";

export const STREAM = "/api/sessions/s/stream";

export function state(serverNowMs = Date.now()) {
  return { type: "session_state", payload: { state: "running", last_seq: 0, server_now: serverNowMs / 1000 }, ts: 1 };
}

export function deviceCall(callId: string, more: object = {}) {
  return {
    type: "device_tool_call",
    payload: {
      call_id: callId,
      call_token: `token-of-${callId}`,
      tool_id: "device_act",
      args: { to: "mom" },
      expires_at: Date.now() / 1000 + 30,
      ...more,
    },
    ts: 1,
  };
}

export function settled(callId: string, status = "answered") {
  return { type: "device_tool_call.settled", payload: { call_id: callId, status }, ts: 1 };
}

/** An executor whose one tool counts its runs, attached or not. */
export function newExecutor(mesh: MeshDouble, options: Partial<ExecutorOptions> = {}) {
  const events: ExecutorEvent[] = [];
  const ran: unknown[] = [];
  const clock = options.clock ?? createHastyClock(7_000);
  const client = createClient({ url: mesh.url, clock, random: () => 0 });
  const executor = createExecutor({
    tools: {
      device_act: {
        description: "Acts.",
        parameters: { type: "object" },
        run: (args) => {
          ran.push(args);
          return { acted: ran.length };
        },
      },
    },
    clock,
    random: () => 0,
    locks: null,
    ...options,
    onEvent: (event) => {
      options.onEvent?.(event);
      events.push(event);
    },
  });
  const types = () => events.filter(({ type }) => type !== "connection").map(({ type }) => type);
  return { executor, client, session: client.session("s"), events, types, ran };
}
