/** One conversation. */
import {
  type AskView,
  askViewSchema,
  type HistoryEntry,
  historyEntrySchema,
  type MeshReply,
  openDeviceToolCallsSchema,
  type querySchema,
  runAcceptedSchema,
  type SessionView,
  sessionViewSchema,
} from "@leafmesh/protocol";
import * as z from "zod";
import { lastEventId, openStream } from "./event-source.ts";
import { type FollowOptions, follow } from "./follow.ts";
import { type MeshEvent, parseMeshEvent } from "./mesh-events.ts";
import { replyTo } from "./message-stream.ts";
import { OpenOffers } from "./open-offers.ts";
import type { CallOptions, Transport } from "./transport.ts";

/** What a query carries: `query` and, if wanted, `device`, `devices` and `context`. */
export type QueryBody = Omit<z.input<typeof querySchema>, "wait">;
export type OpenDeviceToolCall = z.infer<typeof openDeviceToolCallsSchema>["calls"][number];
export type AcceptedRun = z.infer<typeof runAcceptedSchema>;

/** The result of one call of a tool that this client declared, with the token that the call's frame brought. */
export type DeviceToolAnswer =
  | { readonly call_token: string; readonly status: "ok"; readonly result: unknown }
  | {
      readonly call_token: string;
      readonly status: "error";
      readonly error: { readonly code: string; readonly message: string };
    };

export interface EventsOptions extends FollowOptions {
  /** Says that this stream executes the calls of declared tools, not only shows them. */
  readonly executor?: boolean | undefined;
}

export interface MeshEvents extends AsyncIterable<MeshEvent> {
  /**
   * Where to begin next time (`after`) to lose nothing. Never past a call that is still open: whoever begins there, after a
   * crash or in another process, is shown that call again.
   */
  readonly cursor: number;
}

/** A handle: making one asks the mesh nothing. */
export interface Session {
  readonly id: string;
  get(options?: CallOptions): Promise<SessionView>;
  /** Ends the conversation: cancels what runs, erases push tokens and uploads. The same when repeated. */
  end(options?: CallOptions): Promise<void>;
  /** Sends a message. Resolves when the run is accepted; {@link events} shows what comes of it. */
  query(body: QueryBody, options?: CallOptions): Promise<AcceptedRun>;
  /** Sends a message and waits for the run's end. `timeoutMs` is how long the run may take: an hour unless given. */
  ask(body: QueryBody, options?: CallOptions): Promise<MeshReply>;
  /**
   * What happened and what happens, each event once, over any number of connections. Ends when the conversation does or the
   * signal is aborted; rejects when the mesh refuses for good.
   */
  events(options?: EventsOptions): MeshEvents;
  history(options?: CallOptions): Promise<readonly HistoryEntry[]>;
  asks(query?: AsksQuery, options?: CallOptions): Promise<readonly AskView[]>;
  /** Calls of declared tools that wait for a result, oldest first; with their tokens for an executor. */
  openDeviceToolCalls(
    options?: CallOptions & { readonly executor?: boolean | undefined },
  ): Promise<readonly OpenDeviceToolCall[]>;
  /**
   * Posts the result of a call, once. `createExecutor` does it with the care that it needs. Rejects with 403 (wrong token),
   * 404 (no open call), 409 (a result stands), 410 (the conversation has ended): all of them final.
   */
  answerDeviceTool(callId: string, answer: DeviceToolAnswer, options?: CallOptions): Promise<void>;
}

export interface AsksQuery {
  /** Only those that wait, or only those that ended. */
  readonly open?: boolean | undefined;
  readonly limit?: number | undefined;
}

/** By this header a stream says that it executes what it is offered. */
export const EXECUTOR_HEADERS = { "x-mewbo-capabilities": "device_control" };

export function createSession(id: string, transport: Transport): Session {
  const path = `/api/sessions/${encodeURIComponent(id)}`;
  return {
    id,
    get: (options) => transport.call({ ...options, method: "GET", path, safe: true }, sessionViewSchema),
    end: (options) => transport.send({ ...options, method: "DELETE", path, safe: true }),
    query: (body, options) =>
      transport.call({ ...options, method: "POST", path: `${path}/query`, json: body, safe: false }, runAcceptedSchema),
    ask({ query, message = query, ...more }, options = {}) {
      return replyTo(transport, { ...more, message, session_id: id }, options);
    },
    events: (options = {}) => followEvents(`${path}/stream`, transport, options),
    async history(options) {
      const schema = z.object({ messages: z.array(historyEntrySchema) });
      return (await transport.call({ ...options, method: "GET", path: `${path}/history`, safe: true }, schema))
        .messages;
    },
    async asks(query = {}, options) {
      const request = { ...options, method: "GET", path: `${path}/asks`, query: { ...query }, safe: true } as const;
      return (await transport.call(request, asksSchema)).asks;
    },
    async openDeviceToolCalls({ executor, ...options } = {}) {
      const request = { ...options, method: "GET", path: `${path}/device_tools`, safe: true } as const;
      const headers = executor ? EXECUTOR_HEADERS : {};
      return (await transport.call({ ...request, headers }, openDeviceToolCallsSchema)).calls;
    },
    async answerDeviceTool(callId, answer, options) {
      await transport.call(
        {
          ...options,
          method: "POST",
          path: `${path}/device_tools/${encodeURIComponent(callId)}/result`,
          json: answer,
          safe: false,
        },
        z.object({ resolved: z.literal(true) }),
      );
    },
  };
}

/** @internal One page of asks, of a conversation or of all. */
export const asksSchema = z.object({ asks: z.array(askViewSchema) });

function followEvents(path: string, transport: Transport, { executor, ...options }: EventsOptions): MeshEvents {
  const offers = new OpenOffers(options.after ?? 0);
  return {
    get cursor() {
      return offers.cursor;
    },
    async *[Symbol.asyncIterator]() {
      const frames = follow<MeshEvent>(
        {
          clock: transport.clock,
          random: transport.random,
          connect: (after, signal) =>
            openStream(transport, {
              method: "GET",
              path,
              signal,
              headers: { ...lastEventId(after), ...(executor ? EXECUTOR_HEADERS : {}) },
            }),
          parse: parseMeshEvent,
          isLast: (event) => event.type === "stream_end",
          resumeFrom: (last) => offers.before(last),
        },
        { ...options, after: options.after ?? 0 },
      );
      for await (const event of frames) {
        if (event.type === "device_tool_call") offers.open(event.payload.call_id, event.seq);
        if (event.type === "device_tool_call.settled") offers.close(event.payload.call_id);
        yield event;
        if (event.seq !== undefined) offers.handled(event.seq);
      }
    },
  };
}
