import type { Backend } from "@leafmesh/core/storage";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { arbitraryCommits, idsOf, KEY, OWNER } from "./arbitrary-commits.ts";
import { type BackendModel, createBackendModel } from "./model.ts";
import { T0 } from "./records.ts";

/** Every read of the contract agrees with the model. */
async function expectSame(backend: Backend, { state }: BackendModel): Promise<void> {
  const oldest = <Record extends { readonly createdAt: number }>(records: readonly Record[]) =>
    [...records].sort((left, right) => left.createdAt - right.createdAt);

  for (const id of idsOf("s")) {
    const ofSession = <Record extends { readonly sessionId: string }>(records: readonly Record[]) =>
      records.filter((record) => record.sessionId === id);
    expect(await backend.session(id)).toEqual(state.sessions.find((session) => session.id === id));
    expect(await backend.devices(id)).toEqual(ofSession(state.devices));
    expect(await backend.messages(id)).toEqual(ofSession(state.messages));
    expect(await backend.messages(id, { limit: 2 })).toEqual(ofSession(state.messages).slice(-2));
    expect(await backend.runs({ sessionId: id })).toEqual(oldest(ofSession(state.runs)));
    expect(await backend.calls({ sessionId: id })).toEqual(oldest(ofSession(state.calls)));
    const events = state.events.filter((event) => event.session_id === id);
    expect(await backend.events(id)).toEqual(events);
    expect(await backend.events(id, { after: 1, limit: 2 })).toEqual(events.slice(1, 3));
    expect(await backend.lastEventSeq(id)).toBe(events.length);
  }
  for (const id of idsOf("r")) {
    expect(await backend.run(id)).toEqual(state.runs.find((run) => run.id === id));
    const frames = state.frames.filter((frame) => frame.runId === id);
    expect(await backend.frames(id)).toEqual(frames);
    expect(await backend.frames(id, { after: 1, limit: 2, types: ["suspend"] })).toEqual(
      frames.filter((frame) => frame.seq > 1 && frame.type === "suspend").slice(0, 2),
    );
    expect(await backend.waits({ runId: id, states: ["open"] })).toEqual(
      state.waits.filter((wait) => wait.runId === id && wait.state === "open"),
    );
    const open = oldest(state.calls.filter((call) => call.runId === id && call.state === "created"));
    expect(await backend.calls({ runId: id, states: ["created"] })).toEqual(open);
  }
  for (const id of idsOf("w")) expect(await backend.wait(id)).toEqual(state.waits.find((wait) => wait.id === id));
  for (const id of idsOf("c")) {
    expect(await backend.call(id)).toEqual(state.calls.find((call) => call.id === id));
    expect(await backend.offers(id)).toEqual(state.offers.filter((offer) => offer.callId === id));
  }
  for (const id of idsOf("u")) {
    const upload = await backend.upload(id);
    expect(upload && { ...upload, sealedContent: new Uint8Array(upload.sealedContent) }).toEqual(
      state.uploads.find((candidate) => candidate.id === id),
    );
  }

  for (const owner of [OWNER, undefined]) {
    expect(await backend.sessionByKey(owner, KEY)).toEqual(
      state.sessions.find((session) => session.key === KEY && session.owner === owner && session.endedAt === undefined),
    );
  }
  expect(await backend.dueCallbacks(T0 + 3, 10)).toEqual(
    state.callbacks
      .filter((callback) => callback.state === "waiting" && callback.dueAt <= T0 + 3)
      .sort((left, right) => left.dueAt - right.dueAt),
  );

  const owned = state.sessions.filter((session) => session.owner === OWNER);
  const isOpen = (sessionId: string) =>
    state.runs.some((run) => run.sessionId === sessionId && ["queued", "running", "suspended"].includes(run.status));
  expect(await backend.countOpenSessions(OWNER)).toBe(owned.filter((session) => session.endedAt === undefined).length);
  expect(await backend.sessions({ owner: OWNER, limit: 10 })).toEqual(
    [...oldest(owned)].reverse().map((session) => ({
      session,
      state: session.endedAt !== undefined ? "ended" : isOpen(session.id) ? "running" : "idle",
    })),
  );
  const idle = await backend.idleSessions(T0 + 3, 10);
  expect(new Set(idle.map((session) => session.id))).toEqual(
    new Set(
      state.sessions
        .filter((session) => session.endedAt === undefined && session.lastActiveAt < T0 + 3 && !isOpen(session.id))
        .map((session) => session.id),
    ),
  );
}

/** `open` gives an empty store for each history. */
export function propertyCases(open: () => Promise<{ readonly backend: Backend; dispose(): Promise<void> }>): void {
  describe("any history of commits", () => {
    it("ends as the model of the contract says", { timeout: 120_000 }, async () => {
      await fc.assert(
        fc.asyncProperty(arbitraryCommits, async (commits) => {
          const { backend, dispose } = await open();
          try {
            const model = createBackendModel();
            for (const writes of commits) expect(await backend.commit(writes)).toEqual(model.commit(writes));
            await expectSame(backend, model);
          } finally {
            await dispose();
          }
        }),
        { numRuns: 60 },
      );
    });
  });
}
