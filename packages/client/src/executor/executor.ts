/** Executes tools for an agent: those of a conversation (over its stream) and those that a run is suspended for. */
import {
  type Clock,
  type DeviceTool,
  deviceToolSchema,
  type RunFrameView,
  type RunState,
  systemClock,
} from "@leafmesh/protocol";
import * as z from "zod";
import type { FollowOptions } from "../follow.ts";
import type { MeshEvent } from "../mesh-events.ts";
import type { Run } from "../run.ts";
import type { Session } from "../session.ts";
import { type CallLedger, createMemoryCallLedger } from "./entries.ts";
import type { ExecutorEvent } from "./events.ts";
import type { Locks } from "./locks.ts";
import type { Allow, PerformServices } from "./perform.ts";
import { RunServer } from "./serve-run.ts";
import { SessionServer, serveEvents } from "./serve-session.ts";
import { CallStopped, type ClientTool } from "./tool.ts";
import { Work } from "./work.ts";

export interface ExecutorOptions {
  /** By name. Those that begin with `device_` can be declared on a conversation; the others are those of `POST /tools`. */
  readonly tools: Readonly<Record<string, ClientTool>>;
  /** What is remembered of calls; in memory unless given. */
  readonly ledger?: CallLedger | undefined;
  /**
   * Asked right before each call is run, since what was allowed when the tool was declared may not be any more: a setting, a
   * permission of the system, a person. `false`, or the reason as a text, refuses it. Everything is allowed unless given.
   */
  readonly allow?: Allow | undefined;
  /** Told what happens. What it throws is ignored. */
  readonly onEvent?: ((event: ExecutorEvent) => void) | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: (() => number) | undefined;
  /** The runtime's Web Locks unless given; `null` for none. */
  readonly locks?: Locks | null | undefined;
}

export interface AttachOptions {
  /** Where an earlier attachment was: its `cursor`. From the conversation's first event unless given. */
  readonly after?: number | undefined;
  /** Stops listening. */
  readonly signal?: AbortSignal | undefined;
  /** Every event of the conversation, so that one stream serves the screen as well. What it throws ends the attachment. */
  readonly onEvent?: ((event: MeshEvent) => void) | undefined;
}

/** How an attachment ended. */
export type AttachmentEnd =
  | { readonly reason: "session_ended" | "stopped" }
  /** The mesh refuses the stream for good. */
  | { readonly reason: "failed"; readonly error: unknown };

export interface Attachment {
  /** Where to attach next time to be offered every call that is still open. */
  readonly cursor: number;
  /** Resolves when listening is over, whatever ended it. */
  readonly ended: Promise<AttachmentEnd>;
  /** Stops listening. Calls that are under way go on and are answered. */
  stop(): Promise<void>;
}

export interface ServeRunOptions extends Omit<FollowOptions, "onConnection"> {
  readonly onFrame?: ((frame: RunFrameView) => void) | undefined;
}

export interface Executor {
  /** Goes into `context.device_tools` of a query. */
  readonly deviceTools: DeviceTool[];
  /**
   * Answers calls of the conversation's declared tools. Resolves when the stream is open and all open calls were seen, so
   * that a query sent now finds somebody there; rejects when the mesh refuses. One executor a conversation: whoever reads its
   * stream is shown the same calls.
   */
  attach(session: Session, options?: AttachOptions): Promise<Attachment>;
  /** Answers what the run is suspended for until it has ended; gives back how it stands then. */
  serveRun(run: Run, options?: ServeRunOptions): Promise<RunState>;
  /** Resolves when no call is under way. */
  idle(): Promise<void>;
  /** Stops everything: no call is taken any more, those under way are told to stop and are waited for. */
  close(): Promise<void>;
}

/** Throws a `TypeError` for a `device_` tool that a mesh would not take. */
export function createExecutor(options: ExecutorOptions): Executor {
  const { tools, ledger = createMemoryCallLedger(), allow = () => true, onEvent, clock = systemClock } = options;
  const report = (event: ExecutorEvent): void => {
    try {
      onEvent?.(event);
    } catch {
      // A broken listener must not stop a call half way.
    }
  };
  const services: PerformServices = {
    tools,
    ledger,
    allow,
    report,
    clock,
    random: options.random ?? Math.random,
    locks: options.locks === undefined ? runtimeLocks() : (options.locks ?? undefined),
  };
  const deviceTools = declare(tools);
  const work = new Work();
  const closing = new AbortController();
  const listening = new Set<Promise<unknown>>();
  const until = (signal: AbortSignal | undefined): AbortSignal =>
    signal ? AbortSignal.any([signal, closing.signal]) : closing.signal;

  return {
    get deviceTools() {
      return [...deviceTools];
    },

    async attach(session, { after, signal, onEvent: onSessionEvent } = {}) {
      closing.signal.throwIfAborted();
      const stop = new AbortController();
      const server = new SessionServer({ services, session, work, closed: closing.signal });
      const events = session.events({
        executor: true,
        after,
        signal: AbortSignal.any([stop.signal, until(signal)]),
        onConnection(connection) {
          if (connection.state === "lost") server.lost();
          report({ type: "connection", connection });
        },
      });
      return new Promise<Attachment>((resolve, reject) => {
        const served = serveEvents(server, events, {
          caughtUp: () => resolve(attachment),
          onEvent: onSessionEvent ?? (() => {}),
        });
        const ended = served.then(
          (): AttachmentEnd => ({ reason: stop.signal.aborted || until(signal).aborted ? "stopped" : "session_ended" }),
          (error: unknown): AttachmentEnd => ({ reason: "failed", error }),
        );
        const attachment: Attachment = {
          get cursor() {
            return events.cursor;
          },
          ended,
          async stop() {
            stop.abort();
            await ended;
          },
        };
        listening.add(ended);
        // Whoever waits for the stream to open hears here that it never will; otherwise this settles nothing.
        void ended.then((end) => {
          listening.delete(ended);
          reject(end.reason === "failed" ? end.error : (signal?.reason ?? new CallStopped("closed")));
        });
      });
    },

    async serveRun(run, { after, signal, onFrame } = {}) {
      closing.signal.throwIfAborted();
      const both = until(signal);
      const server = new RunServer({ services, run, work, closed: closing.signal });
      const onConnection = (connection: Parameters<NonNullable<FollowOptions["onConnection"]>>[0]): void =>
        report({ type: "connection", connection });
      for await (const frame of run.frames({ after, signal: both, onConnection })) {
        server.take(frame);
        onFrame?.(frame);
      }
      both.throwIfAborted();
      return run.state({ signal: both });
    },

    idle: () => work.done(),

    async close() {
      closing.abort(new CallStopped("closed"));
      await Promise.all(listening);
      await work.done();
    },
  };
}

function declare(tools: Readonly<Record<string, ClientTool>>): readonly DeviceTool[] {
  return Object.entries(tools)
    .filter(([name]) => name.startsWith("device_"))
    .map(([tool_id, { description, parameters }]) => {
      const declared = deviceToolSchema.safeParse({ tool_id, description, parameters });
      if (!declared.success) throw new TypeError(`tools.${tool_id}: ${z.prettifyError(declared.error)}`);
      return declared.data;
    });
}

function runtimeLocks(): Locks | undefined {
  return typeof navigator === "object" ? navigator.locks : undefined;
}
