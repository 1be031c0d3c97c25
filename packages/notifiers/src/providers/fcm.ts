/** `fcm`: rings apps on Android, Apple's systems and the web through Firebase Cloud Messaging, HTTP v1. */
import { type Secret, secretString } from "@leafmesh/protocol";
import * as z from "zod";
import {
  type CheckResult,
  defineNotifier,
  type Notifier,
  type OptionIssue,
  type ProviderDependencies,
  RingError,
  type RingReceipt,
  type RingRequest,
} from "../contract.ts";
import { assertFits, checkResult, createCachedCredential, createVendorClient } from "../http/index.ts";
import { ACCESS_TOKEN_REFUSED, acceptedId, accessToken, ringError } from "./fcm-answers.ts";
import { PROJECT_ID, readServiceAccount, type ServiceAccount, TOKEN_URL, tokenRequest } from "./fcm-key.ts";

const MAX_BYTES = 4096;
const RENEW_BEFORE_MS = 5 * 60_000;

const options = z.strictObject({
  service_account: secretString(
    "Content of the key's JSON file: Firebase console → Project settings → Service accounts → Generate new private key.",
    { multiline: true },
  ),
  project_id: z
    .string()
    .regex(PROJECT_ID, "must be a project ID, such as my-app-1a2b3")
    .optional()
    .meta({ description: "Firebase project of the app, when it is another than the service account's." }),
});
type Options = z.output<typeof options>;

export const fcmNotifier = defineNotifier({
  provider: "fcm",
  title: "Firebase Cloud Messaging",
  description: "Rings apps on Android, on Apple's systems and in browsers through Google's push service.",
  options,
  pushToken: z
    .string()
    .regex(/^[A-Za-z0-9_:\-.=%]{1,4096}$/, "must be a registration token of Firebase, without spaces"),
  traits: { maxBytes: MAX_BYTES, ttl: true, collapse: true, silent: "best-effort", link: false, deadTokens: true },
  docs: {
    setUp: [
      "In the Firebase console, open Project settings → Cloud Messaging: Firebase Cloud Messaging API (V1) has to be enabled.",
      "Under Service accounts, generate a new private key. The whole JSON file is `service_account`; " +
        "a reference such as `$" +
        "{file:./secrets/fcm.json}` reads it.",
      "For devices of Apple, upload an APNs key on the page Cloud Messaging as well.",
      "Apps of Apple's systems register a notification category `LEAF_ALLOW` with the actions Allow and Deny.",
    ],
    pushToken: "The registration token that the Firebase SDK gives the app. It changes: the app sends each new one.",
    onTheDevice:
      "Takes the text under `leafmesh` from the message's data and hands it to the device kit's `handleRing`. " +
      "For `ask` it shows a notification with Allow and Deny first.",
    check:
      "Sends a dry run to a topic that nobody has. `active` says that the account may send in this project; " +
      "whether Firebase has a valid key for Apple's service shows with the first ring.",
    goodToKnow: [
      "On Android every ring is data with high priority, which wakes the app. A notification of Firebase has no buttons, " +
        "so for `ask` the data has `title` and `body` too, and the app shows a notification with Allow and Deny by itself.",
      "On Apple's systems `ask` is an alert of the category `LEAF_ALLOW`, and `silent` a background notification, which " +
        "iOS delays and drops. Browsers take no push that shows nothing, so there the service worker has to show one.",
      "Google lowers the priority of an app whose messages lead to nothing that the person sees, about a week long. An " +
        "app that was stopped by force gets nothing until it is opened.",
      "Until Google has taken a first ring of the record since the start, a token of another project is read as a wrong " +
        "project in the record, and no device is reported as dead.",
      "The account is only used for `https://www.googleapis.com/auth/firebase.messaging`, at Google's own addresses, " +
        "whatever `token_uri` says.",
    ],
    links: [
      "https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send",
      "https://firebase.google.com/docs/cloud-messaging/error-codes",
      "https://firebase.google.com/docs/cloud-messaging/manage-tokens",
      "https://firebase.google.com/docs/cloud-messaging/android/message-priority",
    ],
  },
  validate({ service_account, project_id }): readonly OptionIssue[] {
    const account = readServiceAccount(service_account);
    if ("issue" in account) return [{ path: ["service_account"], message: account.issue }];
    if (project_id !== undefined || PROJECT_ID.test(account.projectId ?? "")) return [];
    return [{ path: ["service_account"], message: "names no project; set project_id beside it" }];
  },
  create: (fields, dependencies) => new Fcm(fields, dependencies),
});

type Account = ServiceAccount & { readonly projectId: string };

class Fcm implements Notifier {
  readonly #options;
  readonly #clock;
  readonly #client;
  readonly #token;
  readonly #newId;
  #read: Account | undefined;
  #hasRung = false;

  constructor(fields: Options, { clock, network, newId }: ProviderDependencies) {
    this.#options = fields;
    this.#clock = clock;
    this.#newId = newId;
    this.#client = createVendorClient({ clock, network });
    this.#token = createCachedCredential({
      clock,
      renewBeforeMs: RENEW_BEFORE_MS,
      mint: (signal) => this.#mint(signal),
    });
  }

  async ring(request: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    const message = toMessage(request, this.#clock.nowMs());
    // What Android gets, and what Apple's service gets of it.
    assertFits(JSON.stringify(message.data), MAX_BYTES);
    assertFits(JSON.stringify({ ...message.apns.payload, ...message.data }), MAX_BYTES);
    const id = await this.#send({ message: { token: to.reveal(), ...message } }, signal);
    this.#hasRung = true;
    return { id };
  }

  /** A dry run to a topic that nobody has: Google judges key, rights and project, and reaches no device. */
  check(signal: AbortSignal): Promise<CheckResult> {
    const topic = this.#newId("leafmesh-check");
    return checkResult(async () => {
      await this.#send({ validate_only: true, message: { topic, data: { probe: "1" } } }, signal);
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
    const { projectId } = this.#account();
    const answer = await this.#client.request({
      url: `https://fcm.googleapis.com/v1/projects/${projectId}/messages:send`,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
    const id = acceptedId(answer);
    if (id === undefined) throw ringError(answer, this.#hasRung);
    return id;
  }

  async #mint(signal: AbortSignal) {
    const answer = await this.#client.request({
      url: TOKEN_URL,
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: await tokenRequest(this.#account(), this.#clock.nowMs()),
      signal,
    });
    return accessToken(answer, this.#clock.nowMs());
  }

  /** Read at the first request: parsing a key costs more than the rest of a ring. */
  #account(): Account {
    this.#read ??= this.#readAccount();
    return this.#read;
  }

  #readAccount(): Account {
    const { service_account, project_id } = this.#options;
    const account = readServiceAccount(service_account);
    const projectId = project_id ?? ("issue" in account ? undefined : account.projectId);
    if ("issue" in account || projectId === undefined || !PROJECT_ID.test(projectId)) {
      throw new RingError("bad_credential", "The field service_account holds no usable key.", {
        code: "service_account",
      });
    }
    return { ...account, projectId };
  }
}

/** https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages */
function toMessage({ ring, body, collapseKey, ttlMs, approval }: RingRequest, nowMs: number) {
  const isShown = approval === "ask";
  const question = { title: ring.mesh ?? "A mesh", body: "Allow this connection?" };
  const ttlSeconds = Math.max(1, Math.ceil(ttlMs / 1000));
  const alert = {
    alert: question,
    category: "LEAF_ALLOW",
    sound: "default",
    "interruption-level": "time-sensitive",
    "mutable-content": 1,
  };
  return {
    data: { leafmesh: body, ...(isShown ? question : {}) },
    android: { priority: "HIGH", ttl: `${ttlSeconds}s`, collapse_key: collapseKey },
    apns: {
      headers: {
        "apns-push-type": isShown ? "alert" : "background",
        "apns-priority": isShown ? "10" : "5",
        "apns-expiration": String(Math.ceil((nowMs + ttlMs) / 1000)),
        "apns-collapse-id": collapseKey,
      },
      payload: { aps: isShown ? alert : { "content-available": 1 } },
    },
    webpush: { headers: { TTL: String(ttlSeconds), Urgency: "high", Topic: collapseKey } },
  };
}
