import { MAX_RING_BYTES, type Ring, randomId, Secret, silentLogger, systemClock } from "@leafmesh/protocol";
import { describe, expect, it } from "vitest";
import { type ProviderDependencies, RingError, type RingRequest } from "../contract.ts";
import { type DirectDelivery, type DirectRing, hashDirectToken } from "../direct/hub.ts";
import { directNotifier } from "./direct.ts";

const ring: Ring = {
  v: 1,
  ask: "ask_1",
  device: "phone-7",
  approval: "ask",
  iat: 1,
  exp: 2,
  join: { provider: "leafmesh", room: "room-1" },
};
const request: RingRequest = {
  ring,
  body: JSON.stringify(ring),
  collapseKey: "ask_1",
  ttlMs: 60_000,
  approval: "ask",
};
const dependencies: ProviderDependencies = {
  clock: systemClock,
  logger: silentLogger,
  newId: randomId,
  scope: { share: (_key, make) => make() },
};

function notifierOver(delivery: DirectDelivery) {
  const rung: DirectRing[] = [];
  const definition = directNotifier(() => ({
    async ring(given) {
      rung.push(given);
      return delivery;
    },
  }));
  return { definition, rung, notifier: definition.create({}, dependencies) };
}

const never = new AbortController().signal;

describe("directNotifier", () => {
  it("needs nothing and takes nothing else", () => {
    const { definition } = notifierOver("received");
    expect(definition.provider).toBe("direct");
    expect(definition.options.safeParse({}).success).toBe(true);
    expect(definition.options.safeParse({ url: "x" }).success).toBe(false);
    expect(definition.traits).toEqual({
      maxBytes: MAX_RING_BYTES,
      ttl: true,
      collapse: true,
      silent: "yes",
      link: false,
      deadTokens: false,
    });
  });

  it.each(["...", "a", "x".repeat(512), "pässwörd ✓"])("takes the push token %j", (token) => {
    expect(notifierOver("received").definition.pushToken.safeParse(token).success).toBe(true);
  });

  it.each(["", "x".repeat(513), "a\nb", "a\u0000", "\ud800"])("does not take the push token %j", (token) => {
    expect(notifierOver("received").definition.pushToken.safeParse(token).success).toBe(false);
  });

  it.each(["received", "written"] as const)("is done when the ring was %s", async (delivery) => {
    const { notifier, rung } = notifierOver(delivery);
    expect(await notifier.ring(request, new Secret("right"), never)).toEqual({ id: delivery });
    expect(rung).toEqual([
      { deviceId: "phone-7", tokenHash: hashDirectToken(new Secret("right")), askId: "ask_1", body: request.body },
    ]);
  });

  it("says that the device is offline, and not with which token", async () => {
    const { notifier } = notifierOver("no_socket");
    const failure = await notifier.ring(request, new Secret("right"), never).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(RingError);
    expect(failure).toMatchObject({ kind: "offline", code: "no_socket" });
    expect(String(failure)).not.toContain("right");
  });

  it("may be tried again when the device has to confirm others first", async () => {
    const { notifier } = notifierOver("busy");
    const failure = await notifier.ring(request, new Secret("right"), never).catch((error: unknown) => error);
    expect(failure).toMatchObject({ kind: "transient", code: "busy", isRepeatable: true });
  });

  it("works whenever the mesh does", async () => {
    const { notifier, rung } = notifierOver("no_socket");
    expect(await notifier.check(never)).toEqual({ status: "active" });
    expect(rung).toEqual([]);
    await notifier.close();
  });

  it("asks for the hub at the first ring and not before", () => {
    const definition = directNotifier(() => {
      throw new Error("not started");
    });
    expect(() => definition.create({}, dependencies)).not.toThrow();
  });
});
