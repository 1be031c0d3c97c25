/** Push tokens that are addresses, when the name of a push service leads into a private network. */

import { createECDH } from "node:crypto";
import { type Network, type Ring, randomId, Secret, systemClock } from "@leafmesh/protocol";
import { playBrowser, startWns, type WnsDouble } from "@leafmesh/testkit/notifiers";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { webpushNotifier } from "./webpush.ts";
import { wnsNotifier } from "./wns.ts";

const resolved = vi.hoisted(() => ({ names: [] as string[], address: "127.0.0.1" }));

/** What an attacker's or a broken resolver says of every name. */
vi.mock("node:dns", async (original) => ({
  ...(await original<typeof import("node:dns")>()),
  lookup(name: string, _options: unknown, done: (error: null, found: readonly object[]) => void) {
    resolved.names.push(name);
    done(null, [{ address: resolved.address, family: resolved.address.includes(":") ? 6 : 4 }]);
  },
}));
afterEach(() => void resolved.names.splice(0));

const pair = createECDH("prime256v1");
const applicationServerKey = pair.generateKeys("base64url");
const browser = playBrowser({ endpoint: "https://web.push.apple.com/phone", applicationServerKey });

const APP = {
  tenantId: "5e3e9847-3183-4f18-a7e8-671c3a57d4b3",
  clientId: "0b1c2d3e-4f50-4617-8293-a4b5c6d7e8f9",
  clientSecret: "the-secret-of-the-application",
};
let entra: WnsDouble;
beforeAll(async () => {
  entra = await startWns(systemClock, { app: APP, channels: {} });
});
afterAll(() => entra.close());

const notifiers = [
  {
    definition: webpushNotifier,
    record: {
      vapid_private_key: pair.getPrivateKey("base64url").padStart(43, "A"),
      contact: "mailto:ops@example.com",
    },
    pushToken: browser.subscription,
    host: "web.push.apple.com",
  },
  {
    definition: wnsNotifier,
    record: { client_secret: APP.clientSecret, tenant_id: APP.tenantId, client_id: APP.clientId },
    pushToken: "https://db5.notify.windows.com/w/?token=BQYAAADdW",
    host: "db5.notify.windows.com",
  },
];

const RING: Ring = {
  v: 1,
  ask: "ask_1",
  device: "phone-7",
  approval: "ask",
  iat: 1,
  exp: 2,
  join: { provider: "leafmesh", url: "wss://mesh.example.com", room: "room-1", token: "token" },
  kid: "key-1",
  sig: "s",
};

const onlyEntra: Network["route"] = (host, port) =>
  host === "login.microsoftonline.com" ? entra.server.network.route(host, port) : undefined;

describe.each(notifiers)("$definition.provider", ({ definition, record, pushToken, host }) => {
  it.each(["127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.0.1", "::1", "fd00::1", "::ffff:10.0.0.1"])(
    "does not ring %s, whatever name it has",
    async (address) => {
      resolved.address = address;
      const log = () => {};
      const notifier = definition.create(definition.options.parse(record), {
        clock: systemClock,
        logger: { debug: log, info: log, warn: log, error: log },
        newId: randomId,
        scope: { share: (_key, make) => make() },
        // Access tokens can be had; where channels are is asked of the resolver.
        network: { ca: entra.server.network.ca, route: onlyEntra },
      });
      const request = { ring: RING, body: "{}", collapseKey: "ask_1", ttlMs: 1_000, approval: "ask" } as const;
      const ringing = notifier.ring(request, new Secret(pushToken), new AbortController().signal);
      await expect(ringing).rejects.toMatchObject({ kind: "bad_request", code: "not_public" });
      expect(resolved.names).toEqual([host]);
      await notifier.close();
    },
  );
});
