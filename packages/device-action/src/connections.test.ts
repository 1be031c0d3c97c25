import type { Connection } from "@leafmesh/core";
import { type ConnectionScope, defineNotifier, type ProviderDependencies } from "@leafmesh/notifiers/contract";
import { Secret, silentLogger } from "@leafmesh/protocol";
import { defineRoom } from "@leafmesh/rooms/contract";
import { createFakeClock } from "@leafmesh/testkit";
import { ScriptedNotifier, ScriptedRooms } from "@leafmesh/testkit/ask";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { createConnectionPool } from "./connections.ts";

/** Providers that keep what they make, so that a test can see it used and closed. */
function world(records: Record<string, string>) {
  const notifiers: ScriptedNotifier[] = [];
  const rooms: ScriptedRooms[] = [];
  const sockets: { closed: number }[] = [];
  const given: ProviderDependencies[] = [];
  const share = (scope: ConnectionScope) =>
    scope.share("socket", () => {
      const socket = { closed: 0 };
      sockets.push(socket);
      return { close: async () => void socket.closed++ };
    });
  const notifier = (provider: string) =>
    defineNotifier({
      provider,
      title: provider,
      description: "",
      options: z.strictObject({}),
      pushToken: z.string().regex(/^t-/),
      traits: { maxBytes: 4096, ttl: true, collapse: true, silent: "yes", link: false, deadTokens: false },
      docs: { setUp: [], pushToken: "anything", onTheDevice: "Joins.", check: "Nothing.", goodToKnow: [], links: [] },
      create(_options, dependencies) {
        given.push(dependencies);
        if (provider === "both") share(dependencies.scope);
        const made = new ScriptedNotifier();
        notifiers.push(made);
        return made;
      },
    });
  const room = (provider: string) =>
    defineRoom({
      provider,
      title: provider,
      description: "",
      options: z.strictObject({}),
      traits: {
        ...{ credential: "", joinSignal: "", lossSeenWithinMs: 0, maxTaskBytes: undefined },
        ...{ setUp: [], checkProves: "" },
      },
      create(_options, dependencies) {
        if (provider === "both") share(dependencies.scope);
        const made = new ScriptedRooms();
        rooms.push(made);
        return made;
      },
    });
  const connections = new Map(
    Object.entries(records).map(([name, provider]): [string, Connection] => [name, { name, provider, options: {} }]),
  );
  const pool = createConnectionPool({
    mesh: { connections },
    notifiers: new Map([notifier("push"), notifier("both")].map((definition) => [definition.provider, definition])),
    rooms: new Map([room("leafmesh"), room("both")].map((definition) => [definition.provider, definition])),
    clock: createFakeClock(),
    logger: silentLogger,
    newId: (prefix) => prefix,
    publicUrl: "https://mesh.example.com",
  });
  return { pool, notifiers, rooms, sockets, given };
}

const settle = () => new Promise((resolve) => void setImmediate(resolve));

describe("the connections of a mesh", () => {
  it("are made on first use and shared from then on", () => {
    const { pool, notifiers, rooms, given } = world({ phones: "push" });
    expect(notifiers).toHaveLength(0);
    const first = pool.notifier("phones");
    expect(pool.notifier("phones")).toBe(first);
    expect(first).toMatchObject({ name: "phones", provider: "push" });
    expect(given[0]?.publicUrl).toBe("https://mesh.example.com");
    expect(pool.room(undefined)).toBe(pool.room(undefined));
    expect(pool.room(undefined)).toMatchObject({ name: null, provider: "leafmesh" });
    expect([notifiers.length, rooms.length]).toEqual([1, 1]);
  });

  it("are not there when the mesh has no such record, or one that cannot do it", () => {
    const { pool } = world({ phones: "push" });
    expect(pool.notifier("tablets")).toBeUndefined();
    expect(pool.room("phones")).toBeUndefined();
    expect(pool.room("nowhere")).toBeUndefined();
  });

  it("know the shape of their tokens", () => {
    const { pool } = world({ phones: "push" });
    expect(pool.notifier("phones")?.accepts(new Secret("t-1"))).toBe(true);
    expect(pool.notifier("phones")?.accepts(new Secret("+491701234567"))).toBe(false);
  });

  it("share one socket between the two faces of a record, and none between records", () => {
    const { pool, sockets } = world({ broker: "both", other: "both" });
    pool.notifier("broker");
    pool.room("broker");
    expect(sockets).toHaveLength(1);
    pool.room("other");
    expect(sockets).toHaveLength(2);
  });

  it("are tested in each face that they have, without an ask", async () => {
    const { pool, notifiers } = world({ phones: "push", broker: "both" });
    pool.notifier("broker");
    const [broken] = notifiers;
    if (!broken) throw new Error("unreachable");
    broken.check = async () => {
      throw new TypeError("not as promised");
    };
    expect(await pool.checkAll(new AbortController().signal)).toEqual([
      { connection: "phones", face: "notifier", result: { status: "active" } },
      { connection: "broker", face: "notifier", result: { status: "readable", reason: expect.any(String) } },
      { connection: "broker", face: "room", result: { status: "active" } },
    ]);
  });

  it("close all they hold, what they share after those who share it", async () => {
    const { pool, notifiers, rooms, sockets } = world({ broker: "both" });
    pool.notifier("broker");
    pool.room("broker");
    await pool.close();
    await pool.close();
    expect([notifiers[0]?.timesClosed, rooms[0]?.timesClosed, sockets[0]?.closed]).toEqual([1, 1, 1]);
    expect(pool.notifier("broker")).toBeUndefined();
    expect(pool.room(undefined)).toBeUndefined();
  });

  it("close although one of them does not want to", async () => {
    const { pool, notifiers, rooms } = world({ broker: "both" });
    pool.notifier("broker");
    pool.room("broker");
    const [broken] = notifiers;
    if (!broken) throw new Error("unreachable");
    broken.close = async () => {
      throw new Error("stuck");
    };
    await pool.close();
    expect(rooms[0]?.timesClosed).toBe(1);
  });
});

describe("the connections of a mesh that was replaced", () => {
  it("close when the last ask is over", async () => {
    const { pool, notifiers } = world({ phones: "push" });
    const release = pool.hold();
    const other = pool.hold();
    pool.notifier("phones");
    pool.retire();
    release();
    release();
    await settle();
    expect(notifiers[0]?.timesClosed).toBe(0);
    other();
    await settle();
    expect(notifiers[0]?.timesClosed).toBe(1);
  });

  it("close at once when nothing is open", async () => {
    const { pool, notifiers } = world({ phones: "push" });
    pool.notifier("phones");
    pool.retire();
    await settle();
    expect(notifiers[0]?.timesClosed).toBe(1);
  });

  it("come back for a run of that mesh that asks again, and close again", async () => {
    const { pool, notifiers } = world({ phones: "push" });
    pool.retire();
    const release = pool.hold();
    pool.notifier("phones");
    await settle();
    expect(notifiers[0]?.timesClosed).toBe(0);
    release();
    await settle();
    expect(notifiers[0]?.timesClosed).toBe(1);
  });

  it("stay open while it is in force", async () => {
    const { pool, notifiers } = world({ phones: "push" });
    pool.hold()();
    pool.notifier("phones");
    pool.hold()();
    await settle();
    expect(notifiers[0]?.timesClosed).toBe(0);
  });
});
