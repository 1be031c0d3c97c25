import { type CallState, OPEN_CALL_STATES, SETTLED_CALL_STATES, type Write } from "@leafmesh/core/storage";
import { runStatusSchema } from "@leafmesh/protocol";
import fc from "fast-check";
import {
  aCall,
  aDevice,
  aMessage,
  anUpload,
  aRun,
  aSession,
  aWait,
  aWarning,
  createCall,
  createSession,
  T0,
} from "./records.ts";

/** The owner of some of the sessions; the others have none. */
export const OWNER = "app";

/** The key of some of the sessions. */
export const KEY = "visitor-42";

/** Few ids of each kind, so that writes meet each other. */
export const idsOf = (kind: string): [string, string, string] => [`${kind}0`, `${kind}1`, `${kind}2`];

/** What each history starts with, so that there is something to meet. */
const BEGINNING: readonly (readonly Write[])[] = [
  [...createCall({ session: "s0", run: "r0", wait: "w0", call: "c0" }), createSession("s1", { owner: OWNER })],
];

/** The first id is there from the beginning and is met most. */
const id = (kind: string) => {
  const [first, second, third] = idsOf(kind);
  return fc.constantFrom(first, first, first, second, second, third);
};
const session = id("s");
const at = fc.integer({ min: T0, max: T0 + 5 });
const version = fc.constantFrom(1, 1, 1, 2, 2, 3);
const text = fc.string({ unit: "grapheme", maxLength: 12 }).map((value) => value.replaceAll("\0", ""));
const status = fc.constantFrom(...runStatusSchema.options);
const callState = fc.constantFrom<CallState>(...OPEN_CALL_STATES, ...SETTLED_CALL_STATES, "used");
const waitState = fc.constantFrom("open", "complete", "continued", "expired", "cancelled");
const optional = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });

const sessionCreate = fc
  .record({ session, at, owner: optional(fc.constant(OWNER)), key: optional(fc.constant(KEY)) })
  .map(
    ({ session, at, owner, key }): Write => ({
      kind: "session.create",
      session: aSession(session, { owner, key, createdAt: at, lastActiveAt: at }),
    }),
  );

const sessionTouch = fc
  .record({ sessionId: session, at, context: optional(fc.dictionary(text, text, { noNullPrototype: true })) })
  .map(({ context, ...touch }): Write => ({ kind: "session.touch", ...touch, ...(context ? { context } : {}) }));

const sessionEnd = fc
  .record({ sessionId: session, at })
  .map(({ sessionId, at }): Write => ({ kind: "session.end", sessionId, at }));

const devicesReplace = fc
  .record({ session, ids: fc.array(fc.constantFrom("phone", "tablet", "web", "watch"), { maxLength: 3 }) })
  .map(
    ({ session, ids }): Write => ({
      kind: "devices.replace",
      sessionId: session,
      devices: ids.map((device) => aDevice(session, device)),
    }),
  );

const runCreate = fc.record({ id: id("r"), session, status, at, version }).map(
  ({ id, session, status, at, version }): Write => ({
    kind: "run.create",
    run: aRun(id, session, { status, createdAt: at, version }),
  }),
);

const runUpdate = fc
  .record({
    runId: id("r"),
    version,
    patch: fc.record(
      {
        status,
        reply: optional(text),
        finishedAt: optional(at),
        output: optional(fc.dictionary(text, text, { noNullPrototype: true })),
        failure: optional(fc.record({ class: text, detail: text }, { noNullPrototype: true })),
      },
      { requiredKeys: [] },
    ),
  })
  .map((update): Write => ({ kind: "run.update", ...update }));

const messageAppend = fc
  .record({ session, text })
  .map(({ session, text }): Write => ({ kind: "message.append", message: aMessage(session, text) }));

const waitCreate = fc.record({ id: id("w"), run: id("r"), session }).map(
  ({ id, run, session }): Write => ({
    kind: "wait.create",
    wait: aWait(id, { id: run, sessionId: session }, ["c0", "c1"]),
  }),
);

const waitUpdate = fc
  .record({ waitId: id("w"), from: waitState, to: waitState, answerDigest: optional(text) })
  .map((update): Write => ({ kind: "wait.update", ...update }));

const callCreate = fc.record({ id: id("c"), wait: id("w"), run: id("r"), session, at }).map(
  ({ id, wait, run, session, at }): Write => ({
    kind: "call.create",
    call: aCall(
      id,
      { id: wait, runId: run, sessionId: session },
      { createdAt: at, tokenHash: `hash-${id}`, sealedToken: "sealed" },
    ),
  }),
);

const callUpdate = fc
  .record({
    callId: id("c"),
    version,
    patch: fc.record(
      {
        state: callState,
        device: optional(text),
        result: fc.jsonValue({ stringUnit: "grapheme" }),
        settledAt: at,
        sealedToken: fc.constant(undefined),
        late: optional(fc.record({ at, digest: text, result: text }, { noNullPrototype: true })),
      },
      { requiredKeys: [] },
    ),
  })
  .map((update): Write => ({ kind: "call.update", ...update }));

const offerAppend = fc
  .record({ callId: id("c"), at, via: text })
  .map((offer): Write => ({ kind: "offer.append", offer: { ...offer, channel: "ring" } }));

const eventAppend = fc
  .record({ session, at, text })
  .map(({ session, at, text }): Write => ({ kind: "event.append", sessionId: session, at, event: aWarning(text) }));

const uploadCreate = fc
  .record({ id: id("u"), session })
  .map(({ id, session }): Write => ({ kind: "upload.create", upload: anUpload(id, session) }));

const frameAppend = fc
  .record({ runId: id("r"), at, type: fc.constantFrom("suspend", "resume"), text })
  .map(({ runId, at, type, text }): Write => ({ kind: "frame.append", runId, at, frame: { type, data: { text } } }));

const noticedEvent = fc.option(
  fc.constant({ type: "device.token_dead", payload: { device: "phone-7", notifier: "phones" } } as const),
  { nil: undefined },
);
const callbackCreate = fc.record({ id: id("n"), runId: id("r"), at, event: noticedEvent }).map(
  ({ event, at, ...ids }): Write => ({
    kind: "callback.create",
    callback: {
      ...ids,
      event,
      sealedUrl: event ? undefined : "sealed",
      state: "waiting",
      attempts: 0,
      dueAt: at,
      createdAt: at,
      version: 1,
    },
  }),
);

const callbackUpdate = fc
  .record({
    callbackId: id("n"),
    version,
    patch: fc.record(
      { state: fc.constantFrom("waiting", "delivered", "given_up"), attempts: fc.nat(9), dueAt: at },
      { requiredKeys: [] },
    ),
  })
  .map((update): Write => ({ kind: "callback.update", ...update }));

const write = fc.oneof(
  { weight: 3, arbitrary: sessionCreate },
  { weight: 2, arbitrary: sessionTouch },
  { weight: 1, arbitrary: sessionEnd },
  { weight: 4, arbitrary: devicesReplace },
  { weight: 5, arbitrary: runCreate },
  { weight: 5, arbitrary: runUpdate },
  { weight: 6, arbitrary: messageAppend },
  { weight: 4, arbitrary: waitCreate },
  { weight: 3, arbitrary: waitUpdate },
  { weight: 5, arbitrary: callCreate },
  { weight: 6, arbitrary: callUpdate },
  { weight: 3, arbitrary: offerAppend },
  { weight: 6, arbitrary: eventAppend },
  { weight: 3, arbitrary: uploadCreate },
  { weight: 4, arbitrary: frameAppend },
  { weight: 3, arbitrary: callbackCreate },
  { weight: 3, arbitrary: callbackUpdate },
);

/** Histories of commits of which about as many are refused as are not. */
export const arbitraryCommits: fc.Arbitrary<readonly (readonly Write[])[]> = fc
  .array(fc.array(write, { minLength: 1, maxLength: 3 }), { minLength: 10, maxLength: 60, size: "max" })
  .map((commits) => [...BEGINNING, ...commits]);
