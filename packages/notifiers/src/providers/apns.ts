/** `apns`: rings iPhones, iPads, Macs and watches through Apple, over one connection that is kept. */
import { type Secret, secretString } from "@leafmesh/protocol";
import * as z from "zod";
import {
  type CheckResult,
  defineNotifier,
  type Notifier,
  type ProviderDependencies,
  RingError,
  type RingReceipt,
  type RingRequest,
} from "../contract.ts";
import { assertFits, checkResult, createCachedCredential, createVendorClient } from "../http/index.ts";
import { acceptedId, ringError } from "./apns-answers.ts";
import { makeProviderToken, type ProviderToken, signingKeyIssue } from "./apns-key.ts";

const MAX_BYTES = 4096;
const TOKEN_LIFETIME_MS = 60 * 60_000;
const RENEW_BEFORE_MS = 10 * 60_000;
/** Apple takes a new provider token no more often. */
const TOKEN_MIN_AGE_MS = 20 * 60_000;
/** Apple wants its connections kept; while it is open, the HTTP client asks every minute whether it lives. */
const KEEP_ALIVE_MS = 60 * 60_000;
/** A token of the right shape that no device has. */
const NO_DEVICE = "0".repeat(64);
/** What Apple says about {@link NO_DEVICE} once it has taken the key. */
const AFTER_THE_KEY = new Set(["BadDeviceToken", "DeviceTokenNotForTopic", "Unregistered", "ExpiredToken"]);

const appleId = z.string().regex(/^[A-Z0-9]{10}$/, "must be 10 capital letters and digits");

const options = z.strictObject({
  signing_key: secretString(
    "Content of the .p8 file: Certificates, Identifiers & Profiles → Keys → + → Apple Push Notifications service.",
    {
      multiline: true,
    },
  ),
  key_id: appleId.meta({ description: "ID of that key, beside it in the list of keys and in the name of its file." }),
  team_id: appleId.meta({ description: "Account → Membership details → Team ID." }),
  bundle_id: z
    .string()
    .regex(/^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$/, "must be a bundle ID, such as com.example.app")
    .max(155)
    .meta({ description: "Bundle ID of the app, as in Xcode." }),
  sandbox: z.boolean().default(false).meta({
    description: "For builds that were started from Xcode. Builds from TestFlight and the App Store are not.",
  }),
});
type Options = z.output<typeof options>;

export const apnsNotifier = defineNotifier({
  provider: "apns",
  title: "Apple Push (APNs)",
  description: "Rings iPhones, iPads and Macs directly through Apple's push service.",
  options,
  pushToken: z
    .string()
    .regex(/^(?:[0-9a-fA-F]{2}){32,100}$/, "must be 64 to 200 hexadecimal digits, without spaces and < >"),
  traits: { maxBytes: MAX_BYTES, ttl: true, collapse: true, silent: "best-effort", link: false, deadTokens: true },
  docs: {
    setUp: [
      "In Apple's developer account, open Certificates, Identifiers & Profiles → Keys, add a key with Apple Push " +
        "Notifications service, and download its .p8 file, which can be done once. Its content is `signing_key`, and the " +
        "key's ID is `key_id`.",
      "A key is for the sandbox, for production or for both. Take the environment that `sandbox` names, or both.",
      "The app needs the capability Push Notifications, and Background Modes → Remote notifications for `silent`.",
      "The app registers a notification category `LEAF_ALLOW` with the actions Allow and Deny.",
    ],
    pushToken:
      "The device token of `didRegisterForRemoteNotificationsWithDeviceToken`, as hexadecimal digits. It changes: the app " +
      "asks for it at every start.",
    onTheDevice:
      "Takes the text under `leafmesh` from the notification's payload, registers the category `LEAF_ALLOW` " +
      "with the actions Allow and Deny, and joins within the seconds that iOS gives it.",
    check:
      "Sends to a token that no device has. `active` says that Apple took the key, and not that `bundle_id` is " +
      "right.",
    goodToKnow: [
      "`ask` shows an alert with priority 10, the category `LEAF_ALLOW` and `mutable-content`, so that a notification " +
        "service extension can make ready.",
      "`silent` is a background notification with priority 5. iOS delivers about two or three an hour, and none to an " +
        "app that the person has closed by force.",
      "With a wrong `sandbox`, Apple calls every token bad, and with a wrong `bundle_id` of another app. Until Apple has " +
        "taken a first ring of the record since the start, such an answer is read so, and no device is reported as dead.",

      "Apple takes a new provider token every 20 minutes at most. One is made every 50 minutes and shared by all rings " +
        "of a mesh.",
    ],
    links: [
      "https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns",
      "https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns",
      "https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns",
      "https://developer.apple.com/documentation/usernotifications/pushing-background-updates-to-your-app",
    ],
  },
  validate(fields) {
    const issue = signingKeyIssue(fields.signing_key);
    return issue === undefined ? [] : [{ path: ["signing_key"], message: issue }];
  },
  create: (fields, dependencies) => new Apns(fields, dependencies),
});

class Apns implements Notifier {
  readonly #options;
  readonly #dependencies;
  readonly #client;
  readonly #token;
  readonly #closing = new AbortController();
  #hasRung = false;

  constructor(fields: Options, dependencies: ProviderDependencies) {
    this.#options = fields;
    this.#dependencies = dependencies;
    this.#client = this.#createClient();
    this.#token = createCachedCredential({
      clock: dependencies.clock,
      renewBeforeMs: RENEW_BEFORE_MS,
      mint: async () => ({ value: await this.#mint(), lifetimeMs: TOKEN_LIFETIME_MS }),
    });
  }

  async ring(request: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    const receipt = await this.#ring(request, to, signal);
    this.#hasRung = true;
    return receipt;
  }

  async #ring(request: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    const message = toMessage(request, this.#dependencies.clock.nowMs());
    assertFits(message.payload, MAX_BYTES);
    const deviceToken = to.reveal().toLowerCase();
    const id = await this.#token.use(
      signal,
      (token) => this.#send(this.#client, deviceToken, message, token, signal),
      // This machine slept, or its clock was set: once more with a token of now.
      ({ code }, token) => code === "ExpiredProviderToken" && this.#isReplaceable(token),
    );
    return { id };
  }

  /** Apple judges the key before the device, so a token that no device has shows what it thinks of the key. */
  check(signal: AbortSignal): Promise<CheckResult> {
    const given = AbortSignal.any([signal, this.#closing.signal]);
    return checkResult(async () => {
      // Apple closes connections with many bad tokens: the rings' connection is not used for it.
      const client = this.#createClient();
      try {
        await this.#send(client, NO_DEVICE, probe, await this.#token.get(given), given);
      } catch (error) {
        if (!(error instanceof RingError) || !AFTER_THE_KEY.has(error.code ?? "")) throw error;
      } finally {
        await client.close();
      }
      return { status: "active" };
    });
  }

  close(): Promise<void> {
    this.#closing.abort();
    return this.#client.close();
  }

  #createClient() {
    const { clock, network } = this.#dependencies;
    return createVendorClient({ clock, network, http2: true, keepAliveMs: KEEP_ALIVE_MS });
  }

  async #send(
    client: ReturnType<typeof createVendorClient>,
    deviceToken: string,
    { headers, payload }: Message,
    { jwt }: ProviderToken,
    signal: AbortSignal,
  ): Promise<string> {
    const { sandbox, bundle_id } = this.#options;
    const host = sandbox ? "api.sandbox.push.apple.com" : "api.push.apple.com";
    const answer = await client.request({
      url: `https://${host}/3/device/${encodeURIComponent(deviceToken)}`,
      headers: { authorization: `bearer ${jwt}`, "apns-topic": bundle_id, ...headers },
      body: payload,
      signal,
    });
    const id = acceptedId(answer);
    if (id === undefined) throw ringError(answer, this.#hasRung);
    return id;
  }

  #mint(): Promise<ProviderToken> {
    const { signing_key, key_id: keyId, team_id: teamId } = this.#options;
    const issue = signingKeyIssue(signing_key);
    if (issue !== undefined)
      throw new RingError("bad_credential", `The field signing_key ${issue}.`, { code: "signing_key" });
    return makeProviderToken(signing_key, { keyId, teamId, nowMs: this.#dependencies.clock.nowMs() });
  }

  /** Whether Apple would take another token: not when this one is of now, as far as this machine's clock can tell. */
  #isReplaceable({ issuedAtMs }: ProviderToken): boolean {
    return Math.abs(this.#dependencies.clock.nowMs() - issuedAtMs) >= TOKEN_MIN_AGE_MS;
  }
}

interface Message {
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: string;
}

const UNNAMED = "A mesh";
const QUESTION = "Allow this connection?";

const background = { "apns-push-type": "background", "apns-priority": "5" };

const probe: Message = {
  headers: { ...background, "apns-expiration": "0" },
  payload: JSON.stringify({ aps: { "content-available": 1 } }),
};

/** https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification */
function toMessage({ ring, body, collapseKey, ttlMs, approval }: RingRequest, nowMs: number): Message {
  const isShown = approval === "ask";
  const alert = {
    alert: { title: ring.mesh ?? UNNAMED, body: QUESTION },
    sound: "default",
    category: "LEAF_ALLOW",
    "interruption-level": "time-sensitive",
    "mutable-content": 1,
  };
  return {
    headers: {
      ...(isShown ? { "apns-push-type": "alert", "apns-priority": "10" } : background),
      "apns-expiration": String(Math.ceil((nowMs + ttlMs) / 1000)),
      "apns-collapse-id": collapseKey,
    },
    payload: JSON.stringify({ aps: isShown ? alert : { "content-available": 1 }, leafmesh: body }),
  };
}
