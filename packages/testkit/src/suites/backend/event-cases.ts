import type { Backend, SessionListener } from "@leafmesh/core/storage";
import type { StoredEvent, TransientEvent } from "@leafmesh/protocol";
import { describe, expect, it } from "vitest";
import { appendEvent, createSession, T0 } from "./records.ts";

/** Collects what a listener is called with, and lets a test wait for an event by its number. */
function createCollector() {
  const events: StoredEvent[] = [];
  const transients: TransientEvent[] = [];
  const waiting = new Set<() => void>();
  const listener: SessionListener = {
    onEvents(more) {
      events.push(...more);
      for (const wake of waiting) wake();
    },
    onTransient(event) {
      transients.push(event);
      for (const wake of waiting) wake();
    },
  };
  const until = async (isDone: () => boolean): Promise<void> => {
    while (!isDone()) {
      await new Promise<void>((resolve) => {
        const wake = () => {
          waiting.delete(wake);
          resolve();
        };
        waiting.add(wake);
      });
    }
  };
  return {
    events,
    transients,
    listener,
    until,
    untilSeq: (seq: number) => until(() => (events.at(-1)?.seq ?? 0) >= seq),
  };
}

const oneTo = (last: number): number[] => Array.from({ length: last }, (_, index) => index + 1);

export function eventCases(backend: () => Backend): void {
  const say = (sessionId: string, ...messages: string[]) =>
    backend().commit(messages.map((message) => appendEvent(sessionId, message)));

  describe("events", () => {
    it("are numbered from 1 without a gap in each session, also when many are committed at once", async () => {
      await backend().commit([createSession("a"), createSession("b")]);
      await Promise.all(
        Array.from({ length: 60 }, (_, index) =>
          index % 3 === 0
            ? backend().commit([appendEvent("a", `${index}`), createSession("a")])
            : say(index % 3 === 1 ? "a" : "b", `${index} first`, `${index} second`),
        ),
      );
      for (const sessionId of ["a", "b"]) {
        const events = await backend().events(sessionId);
        expect(events.map((event) => event.seq)).toEqual(oneTo(40));
        const texts = events.map((event) => (event.type === "warning" ? event.payload.message : ""));
        for (let index = 0; index < 40; index += 2) {
          expect(texts[index + 1]).toBe(texts[index]?.replace("first", "second"));
        }
        expect(await backend().lastEventSeq(sessionId)).toBe(40);
      }
      expect(await backend().lastEventSeq("nowhere")).toBe(0);
    });

    it("come back from the commit as they are read later", async () => {
      await backend().commit([createSession("s")]);
      const result = await backend().commit([appendEvent("s", "one", T0 + 1_500), appendEvent("s", "two", T0 + 1_501)]);
      const stored = await backend().events("s");
      expect(result).toEqual({ committed: true, events: stored });
      expect(stored[0]).toEqual({
        type: "warning",
        payload: { code: "test", message: "one" },
        seq: 1,
        session_id: "s",
        ts: (T0 + 1_500) / 1000,
      });
    });

    it("are read in pages that join without a gap, and by type", async () => {
      await backend().commit([createSession("s")]);
      for (let index = 0; index < 10; index++) {
        await backend().commit([
          appendEvent("s", `${index}`),
          {
            kind: "event.append",
            sessionId: "s",
            at: T0,
            event: { type: "ask.back", payload: { ask_id: "a", device: "d" } },
          },
        ]);
      }
      const seqs: number[] = [];
      for (let page = 0; page < 4; page++) {
        const events = await backend().events("s", { after: seqs.at(-1) ?? 0, limit: 7 });
        seqs.push(...events.map((event) => event.seq));
      }
      expect(seqs).toEqual(oneTo(20));
      const backs = await backend().events("s", { types: ["ask.back"], after: 4, limit: 3 });
      expect(backs.map((event) => event.seq)).toEqual([6, 8, 10]);
      expect(await backend().events("s", { types: [] })).toEqual([]);
      expect(await backend().events("s", { after: 20 })).toEqual([]);
      expect(await backend().events("nowhere")).toEqual([]);
    });
  });

  describe("a listener", () => {
    it("gets its session's events in order, after they are stored, and no others", async () => {
      await backend().commit([createSession("s"), createSession("other")]);
      const heard = createCollector();
      const stop = backend().subscribe("s", heard.listener);
      await Promise.all(oneTo(30).map((index) => say(index % 2 ? "s" : "other", `${index} a`, `${index} b`)));
      await heard.untilSeq(30);
      expect(heard.events.map((event) => event.seq)).toEqual(oneTo(30));
      expect(heard.events).toEqual(await backend().events("s"));
      stop();
      stop();
      await say("s", "unheard");
      expect(heard.events).toHaveLength(30);
    });

    it("does not hear of a commit that was refused", async () => {
      await backend().commit([createSession("s")]);
      const heard = createCollector();
      const stop = backend().subscribe("s", heard.listener);
      await backend().commit([appendEvent("s", "never"), createSession("s")]);
      await say("s", "first");
      await heard.untilSeq(1);
      expect(heard.events).toMatchObject([{ seq: 1, payload: { message: "first" } }]);
      stop();
    });

    it("that throws disturbs neither the commit nor the others", async () => {
      await backend().commit([createSession("s")]);
      const broken: SessionListener = {
        onEvents() {
          throw new Error("broken listener");
        },
        onTransient() {
          throw new Error("broken listener");
        },
      };
      const heard = createCollector();
      const stops = [backend().subscribe("s", broken), backend().subscribe("s", heard.listener)];
      expect(await say("s", "one")).toMatchObject({ committed: true });
      expect(await say("s", "two")).toMatchObject({ committed: true });
      backend().publishTransient("s", { type: "model.delta", payload: { run_id: "r", text: "Hel" } });
      await heard.until(() => heard.events.length === 2 && heard.transients.length === 1);
      for (const stop of stops) stop();
    });

    it("that commits while it is called leaves the order whole for the others", async () => {
      await backend().commit([createSession("s")]);
      const commits: Promise<unknown>[] = [];
      const eager: SessionListener = {
        onEvents(events) {
          for (const { seq } of events) if (seq < 20) commits.push(say("s", `after ${seq}`));
        },
        onTransient() {},
      };
      const heard = createCollector();
      const stops = [backend().subscribe("s", eager), backend().subscribe("s", heard.listener)];
      await say("s", "start");
      await heard.untilSeq(20);
      await Promise.all(commits);
      expect(heard.events.map((event) => event.seq)).toEqual(oneTo(20));
      for (const stop of stops) stop();
    });

    it("that publishes while it is called leaves the order whole for the others", async () => {
      await backend().commit([createSession("s")]);
      const eager: SessionListener = {
        onEvents: (events) => {
          for (const { seq } of events)
            backend().publishTransient("s", { type: "stream_end", payload: { reason: `${seq}` } });
        },
        onTransient() {},
      };
      const order: string[] = [];
      const heard = createCollector();
      const stops = [
        backend().subscribe("s", eager),
        backend().subscribe("s", {
          onEvents: (events) => void order.push(...events.map((event) => `event ${event.seq}`)),
          onTransient: (event) => void (event.type === "stream_end" && order.push(`end ${event.payload.reason}`)),
        }),
        backend().subscribe("s", heard.listener),
      ];
      await say("s", "one");
      await heard.until(() => heard.transients.length === 1);
      await say("s", "two");
      await heard.until(() => heard.transients.length === 2);
      expect(order).toEqual(["event 1", "end 1", "event 2", "end 2"]);
      for (const stop of stops) stop();
    });

    it("that subscribes before it reads the backlog misses nothing", async () => {
      await backend().commit([createSession("s")]);
      const write = async () => {
        for (let index = 0; index < 100; index++) await say("s", `${index}`);
      };
      const follow = async (from: number) => {
        while ((await backend().lastEventSeq("s")) < from) await new Promise((resolve) => setImmediate(resolve));
        const heard = createCollector();
        const stop = backend().subscribe("s", heard.listener);
        const backlog = await backend().events("s");
        if (backlog.length < 100) await heard.untilSeq(100);
        stop();
        const seqs = new Set([...backlog, ...heard.events].map((event) => event.seq));
        expect([...seqs].sort((left, right) => left - right)).toEqual(oneTo(100));
      };
      await Promise.all([write(), ...[0, 1, 10, 40, 70, 99].map(follow)]);
    });

    it("gets transient events, which are not stored", async () => {
      await backend().commit([createSession("s")]);
      const heard = createCollector();
      const stop = backend().subscribe("s", heard.listener);
      const deltas = ["Hel", "lo", "!"].map(
        (text) => ({ type: "model.delta", payload: { run_id: "r", text } }) as const,
      );
      for (const delta of deltas) backend().publishTransient("s", delta);
      backend().publishTransient("other", { type: "stream_end", payload: { reason: "x" } });
      await heard.until(() => heard.transients.length >= 3);
      expect(heard.transients).toEqual(deltas);
      expect(await backend().lastEventSeq("s")).toBe(0);
      stop();
    });
  });
}
