/** `hms`: rings Huawei's phones and tablets with HMS Core through Push Kit. */
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
import { ACCESS_TOKEN_REFUSED, acceptedId, accessToken, ringError, TOKEN_REFUSED } from "./hms-answers.ts";

const MAX_BYTES = 4096;
const MAX_TTL_SECONDS = 1_296_000;
const RENEW_BEFORE_MS = 5 * 60_000;
/** Huawei takes its time over tokens. */
const TOKEN_TIMEOUT_MS = 10_000;
const TOKEN_URL = "https://oauth-login.cloud.huawei.com/oauth2/v3/token";
/** Every message that waits for a device is kept: the groups that Huawei knows are too few to give each ask its own. */
const KEEP_ALL = -1;
const OPEN_THE_APP = 3;

const options = z.strictObject({
  client_id: z
    .string()
    .regex(/^[0-9]{1,64}$/, "must be the App ID, digits alone")
    .meta({ description: "AppGallery Connect → project → Project settings → App information → Client ID of the app." }),
  client_secret: secretString("AppGallery Connect → project → Project settings → App information → Client secret."),
});
type Options = z.output<typeof options>;

export const hmsNotifier = defineNotifier({
  provider: "hms",
  title: "Huawei Push Kit",
  description: "Rings Huawei's phones and tablets that have HMS Core, up to HarmonyOS 4.",
  options,
  pushToken: z.string().regex(/^[A-Za-z0-9_=+:-]{1,1024}$/, "must be a push token of Huawei: letters, digits, - and _"),
  traits: { maxBytes: MAX_BYTES, ttl: true, collapse: false, silent: "best-effort", link: false, deadTokens: true },
  docs: {
    setUp: [
      "In AppGallery Connect, open the project, and under Grow → Push Kit enable the service for the app.",
      "Under Project settings → App information are `client_id` and `client_secret` of the app.",
    ],
    pushToken: "The token that `HmsInstanceId.getToken` gives the app. It changes: the app sends each new one.",
    onTheDevice:
      "Takes the JSON text of the message's data and hands its `leafmesh` to `handleRing`: from " +
      "`onMessageReceived`, and after a tap from the extras of the intent.",
    check:
      "Sends a message to be checked and not delivered, to a token that no device has. `active` says that the " +
      "client's secret is right and that Push Kit is enabled for the app.",
    goodToKnow: [
      "`ask` is a notification. A tap opens the app, which finds the data in the extras of the intent and asks with Allow " +
        "and Deny; an app in the foreground gets the message instead.",
      "`silent` is a data message of normal urgency. It reaches an app that the system has ended only if the person lets " +
        "it start by itself.",
      "Notifications without a category that Huawei has granted count as marketing in China, with few a day.",
      "HarmonyOS 5 and later take messages of another API alone, with another kind of key, and are not reached.",
      "Huawei says of tokens of another app that they are not valid. Until it has taken a first ring of the record, such " +
        "an answer is read as a wrong `client_id`, and no device is reported as dead.",
    ],
    links: [
      "https://developer.huawei.com/consumer/en/doc/HMSCore-References/https-send-api-0000001050986197",
      "https://developer.huawei.com/consumer/en/doc/hmscore-guides/android-server-dev-0000001050040110/",
    ],
  },
  create: (fields, dependencies) => new Hms(fields, dependencies),
});

class Hms implements Notifier {
  readonly #options;
  readonly #client;
  readonly #token;
  readonly #newId;
  #hasRung = false;

  constructor(fields: Options, { clock, network, newId }: ProviderDependencies) {
    this.#options = fields;
    this.#newId = newId;
    this.#client = createVendorClient({ clock, network });
    this.#token = createCachedCredential({
      clock,
      renewBeforeMs: RENEW_BEFORE_MS,
      mintTimeoutMs: TOKEN_TIMEOUT_MS,
      mint: (signal) => this.#mint(signal),
    });
  }

  async ring(request: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    const message = toMessage(request);
    assertFits(JSON.stringify(message), MAX_BYTES);
    const id = await this.#send({ validate_only: false, message: { ...message, token: [to.reveal()] } }, signal);
    this.#hasRung = true;
    return { id };
  }

  /** Huawei judges the app and its right first, and then finds that no device has the token. */
  check(signal: AbortSignal): Promise<CheckResult> {
    const token = [this.#newId("leafmesh-check")];
    return checkResult(async () => {
      try {
        await this.#send({ validate_only: true, message: { data: JSON.stringify({ probe: "1" }), token } }, signal);
      } catch (error) {
        if (!(error instanceof RingError) || !TOKEN_REFUSED.has(error.code ?? "")) throw error;
      }
      return { status: "active" };
    });
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  #send(body: object, signal: AbortSignal): Promise<string> {
    return this.#token.use(
      signal,
      (token) => this.#sendWith(token, body, signal),
      ({ code = "" }) => ACCESS_TOKEN_REFUSED.has(code),
    );
  }

  async #sendWith(token: string, body: object, signal: AbortSignal): Promise<string> {
    const answer = await this.#client.request({
      url: `https://push-api.cloud.huawei.com/v1/${this.#options.client_id}/messages:send`,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
    const id = acceptedId(answer);
    if (id === undefined) throw ringError(answer, this.#hasRung);
    return id;
  }

  async #mint(signal: AbortSignal) {
    const { client_id, client_secret } = this.#options;
    const form = { grant_type: "client_credentials", client_id, client_secret: client_secret.reveal() };
    const answer = await this.#client.request({
      url: TOKEN_URL,
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams(form).toString(),
      signal,
      timeoutMs: TOKEN_TIMEOUT_MS,
    });
    return accessToken(answer);
  }
}

/** https://developer.huawei.com/consumer/en/doc/HMSCore-References/https-send-api-0000001050986197 */
function toMessage({ ring, body, collapseKey, ttlMs, approval }: RingRequest) {
  const ttlSeconds = Math.min(Math.max(1, Math.ceil(ttlMs / 1000)), MAX_TTL_SECONDS);
  const notification = {
    title: ring.mesh ?? "A mesh",
    body: "Allow this connection?",
    click_action: { type: OPEN_THE_APP },
    // A later ring of an ask takes the place of the notification before.
    tag: collapseKey,
    foreground_show: false,
  };
  return {
    data: JSON.stringify({ leafmesh: body }),
    android: {
      urgency: "NORMAL",
      ttl: `${ttlSeconds}s`,
      collapse_key: KEEP_ALL,
      ...(approval === "ask" ? { notification } : {}),
    },
  };
}
