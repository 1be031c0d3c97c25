import { randomUUID } from "node:crypto";
import { defineNotifier } from "@leafmesh/notifiers/contract";
import type { RingSigner } from "@leafmesh/protocol";
import type { RoomCallbacks, RoomDefinition } from "@leafmesh/rooms/contract";
import * as z from "zod";
import { deviceActionParty, type Party } from "../lib/ask-party.ts";
import { type RawPlace, rawClient } from "./raw.ts";
import { DEVICE, type Rung } from "./rings.ts";

/** Tells the device's process something, over the one socket that stands for push. */
export type RingBell = (rung: Rung) => void;

export interface LeafmeshOptions {
  readonly room: RoomDefinition;
  /** The room's record, in flow style. */
  readonly record: string;
  readonly callbacks?: RoomCallbacks | undefined;
  readonly publicUrl?: string | undefined;
  readonly bell: RingBell;
  readonly folder: string;
  readonly signer: RingSigner;
}

/** `device_action` with everything behind it. */
export async function leafmeshAsks({
  room,
  record,
  callbacks,
  publicUrl,
  bell,
  folder,
  signer,
}: LeafmeshOptions): Promise<Party> {
  const notifier = defineNotifier({
    provider: "bench",
    title: "Bench",
    description: "Rings over a socket of the benchmark.",
    options: z.strictObject({}),
    pushToken: z.string(),
    traits: { maxBytes: 65_536, ttl: false, collapse: false, silent: "yes", link: false, deadTokens: false },
    docs: { setUp: [], pushToken: "Any.", onTheDevice: "Joins.", check: "Nothing.", goodToKnow: [], links: [] },
    create: () => ({
      ring: async ({ ring }) => {
        bell({ kind: "ring", ring });
        return {};
      },
      check: async () => ({ status: "active" }),
      close: async () => {},
    }),
  });
  return await deviceActionParty({
    connections: `{ phones: { provider: bench }, rooms: ${record} }`,
    device: "{ connection: phones, room: rooms, approval: silent }",
    notifiers: [notifier],
    rooms: [room],
    deviceId: DEVICE,
    pushToken: "the-one",
    folder,
    signer,
    callbacks,
    publicUrl,
  });
}

/** The vendor's client over the same hops: room, ring, join, hello, task, reply. */
export async function rawAsks(place: RawPlace, bell: RingBell): Promise<Party> {
  const client = await rawClient(place, "mesh");
  return {
    async ask() {
      const room = randomUUID();
      const joined = Promise.withResolvers<void>();
      const replied = Promise.withResolvers<void>();
      const seat = await client.join(room, (text) => {
        if (text === "hello") joined.resolve();
        else replied.resolve();
      });
      bell({ kind: "raw", place, room });
      await joined.promise;
      await seat.say("task");
      await replied.promise;
      // The mesh closes its rooms behind its answer as well.
      void seat.leave();
    },
    close: () => client.close(),
  };
}

/** One message there and one back between clients that stay. */
export async function rawEcho(place: RawPlace, bell: RingBell): Promise<Party> {
  const client = await rawClient(place, "mesh");
  const room = randomUUID();
  let heard: () => void = () => {};
  const present = new Promise<void>((resolve) => {
    heard = resolve;
  });
  const seat = await client.join(room, () => heard());
  bell({ kind: "echo", place, room });
  await present;
  return {
    async ask() {
      const reply = new Promise<void>((resolve) => {
        heard = resolve;
      });
      await seat.say("ping");
      await reply;
    },
    async close() {
      await seat.leave();
      await client.close();
    },
  };
}
