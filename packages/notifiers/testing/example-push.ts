/** `example_push`: the adapter of a vendor that does not exist, as all adapters of HTTP push services look. */
import { type Secret, secretString } from "@leafmesh/protocol";
import * as z from "zod";
import {
  defineNotifier,
  type Notifier,
  type ProviderDependencies,
  type RingReceipt,
  type RingRequest,
} from "../src/contract.ts";
import {
  assertFits,
  checkResult,
  createCachedCredential,
  createVendorClient,
  type MintedCredential,
} from "../src/http/index.ts";
import { acceptedSchema, credentialError, ringError, tokenSchema } from "./example-push-answers.ts";

const MAX_BYTES = 4096;
const RENEW_BEFORE_MS = 300_000;
const AUTH_URL = "https://auth.push.example.com/token";
const SEND_URL = "https://push.example.com/v1/send";

const options = z.strictObject({
  app_id: z
    .string()
    .regex(/^[a-z0-9-]{1,40}$/, "must be small letters, digits and -")
    .meta({ description: "Console → App → ID." }),
  app_key: secretString("Console → App → Keys."),
});
type Options = z.output<typeof options>;

export const examplePush = defineNotifier({
  provider: "example_push",
  title: "Example Push",
  description: "Rings devices through a push service that does not exist.",
  options,
  pushToken: z.string().regex(/^dev-[0-9a-f]{16}$/, "must be dev- and 16 hexadecimal digits"),
  traits: { maxBytes: MAX_BYTES, ttl: true, collapse: true, silent: "yes", link: false, deadTokens: true },
  docs: {
    setUp: ["Make an app in the console. Its ID is `app_id`, and a key of it that may send is `app_key`."],
    pushToken: "What `register()` of the vendor's SDK answers.",
    onTheDevice: "Hands the text under `leafmesh` to `handleRing`.",
    check: "Sends to a device that does not exist. `active` says that the key opens the app.",
    goodToKnow: ["`ask` shows a notification with the buttons Allow and Deny, `silent` wakes the app alone."],
    links: ["https://push.example.com/docs/send"],
  },
  create: (fields, dependencies) => new ExamplePush(fields, dependencies),
});

class ExamplePush implements Notifier {
  readonly #options;
  readonly #client;
  readonly #token;

  constructor(fields: Options, { clock, network }: ProviderDependencies) {
    this.#options = fields;
    this.#client = createVendorClient({ clock, network });
    this.#token = createCachedCredential({
      clock,
      renewBeforeMs: RENEW_BEFORE_MS,
      mint: (signal) => this.#mint(signal),
    });
  }

  async ring(request: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    const body = JSON.stringify(message(request, to));
    assertFits(body, MAX_BYTES);
    // Revoked before its time: once more with another, and if that is refused too, the key is bad.
    return this.#token.use(
      signal,
      (token) => this.#send(body, token, signal),
      ({ code }) => code === "token_expired",
    );
  }

  check(signal: AbortSignal) {
    return checkResult(async () => {
      await this.#mint(signal);
      return { status: "active" };
    });
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  async #send(body: string, token: string, signal: AbortSignal): Promise<RingReceipt> {
    const answer = await this.#client.request({
      url: SEND_URL,
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body,
      signal,
    });
    const accepted = acceptedSchema.safeParse(answer.json);
    if (answer.status !== 200 || !accepted.success) throw ringError(answer);
    return { id: accepted.data.id };
  }

  async #mint(signal: AbortSignal): Promise<MintedCredential<string>> {
    const { app_id, app_key } = this.#options;
    const answer = await this.#client.request({
      url: AUTH_URL,
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({ app_id, app_key: app_key.reveal() }).toString(),
      signal,
    });
    const minted = tokenSchema.safeParse(answer.json);
    if (answer.status !== 200 || !minted.success) throw credentialError(answer);
    return { value: minted.data.access_token, lifetimeMs: minted.data.expires_in * 1000 };
  }
}

function message({ body, collapseKey, ttlMs, approval }: RingRequest, to: Secret): object {
  const shown = { title: "Allow this request?", buttons: ["Allow", "Deny"] };
  return {
    to: to.reveal(),
    data: { leafmesh: body },
    ttl: Math.max(1, Math.ceil(ttlMs / 1000)),
    collapse_key: collapseKey,
    ...(approval === "ask" ? { notification: shown } : {}),
  };
}
