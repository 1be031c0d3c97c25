/**
 * `azure_notification_hubs`: a ring is one direct send to a device's handle, or one send to an installation's tag. The
 * hub passes it on to Firebase or Apple with the credentials that it keeps.
 * https://learn.microsoft.com/rest/api/notificationhubs/direct-send
 */
import { type NewId, type Secret, secretString } from "@leafmesh/protocol";
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
import { assertFits, checkResult, createVendorClient } from "../http/index.ts";
import type { Payload } from "./azure-notification-hubs-payload.ts";
import {
  type ConnectionIssue,
  readConnectionString,
  type SharedAccessPolicy,
  signSharedAccess,
} from "./azure-shared-access.ts";

/** What Firebase and Apple take. The hub itself takes 64 KB, and would lose the rest of them later, without a word. */
const MAX_BYTES = 4096;
const SIGNED_FOR_MS = 300_000;
const API_VERSION = "2015-04";
/** Azure's clouds; a signature goes nowhere else. */
const HOSTS =
  /^[a-z][a-z0-9-]{4,49}\.(?:(?:servicebus|notificationhubs?)\.windows\.net|servicebus\.(?:chinacloudapi\.cn|usgovcloudapi\.net))$/;

const options = z.strictObject({
  connection_string: secretString(
    "Portal → Notification Hub → Access Policies: the connection string of a policy with the right Send alone.",
  ),
  hub_name: z
    .string()
    .regex(/^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,258}[A-Za-z0-9])?$/, "must be letters, digits and . _ -")
    .meta({ description: "Portal → Notification Hub: the hub's own name, without its namespace's." }),
  payload_format: z.enum(["fcmv1", "apple", "template"]).default("fcmv1").meta({
    description:
      "What the devices are registered with: fcmv1 (Firebase, the default), apple, or template (installations).",
  }),
});
type Options = z.output<typeof options>;

export const azureNotificationHubsNotifier = defineNotifier({
  provider: "azure_notification_hubs",
  title: "Azure Notification Hubs",
  description: "Rings phones through a notification hub, which holds your credentials of Firebase and Apple.",
  options,
  pushToken: z
    .string()
    .regex(
      /^(?:[A-Za-z0-9_:-]{20,4096}|[A-Za-z0-9_@#.:-]{1,120})$/,
      "must be a Firebase token, an Apple token, or the id of an installation",
    ),
  traits: { maxBytes: MAX_BYTES, ttl: true, collapse: true, silent: "best-effort", link: false, deadTokens: false },
  docs: {
    setUp: [
      "Make a notification hub, and enter your Firebase service account (FCM v1) or Apple key under its Settings.",
      "Under Access Policies of the hub, add a policy with the right Send and no other, and copy its connection string. " +
        "`DefaultFullSharedAccessSignature` works and can read those credentials as well, so leave it to yourself.",
      "Choose `payload_format`: `fcmv1` for Android, `apple` for iOS, `template` for installations of both. A mesh that " +
        "has both without installations has a record for each.",
    ],
    pushToken:
      "With `fcmv1` the registration token of Firebase, with `apple` the device token as hexadecimal digits, with " +
      "`template` the installation's id.",
    onTheDevice:
      "Takes the text under `leafmesh` and hands it to `handleRing`; with `template`, from where the " +
      "installation's templates put it.",
    check:
      "Sends to a tag that no device has. It proves the policy and the hub, not the credentials of Firebase and " +
      "Apple in it.",
    goodToKnow: [
      "`fcmv1` carries data alone (`leafmesh`, and with `ask` also `title` and `body`): the app shows a notification " +
        "with Allow and Deny by itself, or joins without one.",
      "`apple` asks with an alert of the category `LEAF_ALLOW`, whose actions the app registers, and is silent with a " +
        "background push, which iOS delays, drops, and never gives to an app that was swiped away.",
      "`template` sends the properties `leafmesh`, `approval`, `title`, `body`, `ttl`, `expires` and `collapse_key` to " +
        "the tag `$InstallationId:{…}`; the installation's templates must put `$(leafmesh)` into what the app gets. " +
        "Whether a late ring is dropped is up to them too.",
      "A hub takes a ring before Firebase or Apple have seen it. It never says that a token is dead, or that their " +
        "credentials in the hub were refused: both end as `not_joined`. Its metrics in the portal show them.",

      "Let your backend make the installations: whoever has a key with the right Listen can register for any tag, " +
        "another device's included.",
    ],
    links: [
      "https://learn.microsoft.com/rest/api/notificationhubs/direct-send",
      "https://learn.microsoft.com/rest/api/notificationhubs/send-template-notification",
      "https://learn.microsoft.com/azure/notification-hubs/notification-hubs-push-notification-security",
    ],
  },
  validate(fields) {
    const hub = readHub(fields);
    return "issue" in hub ? [{ path: ["connection_string"], message: hub.issue }] : [];
  },
  create: (fields, dependencies) => new AzureNotificationHubs(fields, dependencies),
});

class AzureNotificationHubs implements Notifier {
  readonly #options;
  readonly #clock;
  readonly #newId: NewId;
  readonly #client;

  constructor(fields: Options, { clock, network, newId }: ProviderDependencies) {
    this.#options = fields;
    this.#clock = clock;
    this.#newId = newId;
    this.#client = createVendorClient({ clock, network });
  }

  async ring(request: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    const { payload_format: format } = this.#options;
    const { TOKEN_SHAPES, payloadOf } = await importPayload();
    const { shape, what } = TOKEN_SHAPES[format];
    const handle = to.reveal();
    if (!shape.test(handle)) {
      throw new RingError("bad_request", `With the payload_format ${format} the push token has to be ${what}.`);
    }
    const payload = payloadOf(format, request, handle, this.#clock.nowMs());
    assertFits(payload.body, MAX_BYTES);
    return this.#send(payload, signal);
  }

  check(signal: AbortSignal): Promise<CheckResult> {
    return checkResult(async () => {
      const { probePayload } = await importPayload();
      try {
        await this.#send(probePayload(this.#newId("leafmesh-probe")), signal);
        return { status: "active" };
      } catch (error) {
        // A used-up quota or a tier that is too low stays for a while: rings would be refused too.
        if (!(error instanceof RingError) || error.kind !== "quota" || error.code === "429") throw error;
        return { status: "failing", reason: error.message };
      }
    });
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  async #send({ body, headers, isDirect }: Payload, signal: AbortSignal): Promise<RingReceipt> {
    const hub = readHub(this.#options);
    if ("issue" in hub) throw new RingError("bad_credential", `connection_string ${hub.issue}`);
    const answer = await this.#client.request({
      url: `${hub.url}/messages/?${isDirect ? "direct&" : ""}api-version=${API_VERSION}`,
      headers: {
        ...headers,
        authorization: signSharedAccess(hub.url, hub.policy, this.#clock.nowMs() + SIGNED_FOR_MS),
        "content-type": "application/json;charset=utf-8",
        "x-ms-version": API_VERSION,
      },
      body,
      signal,
    });
    const { hubError, isQueued, receiptId } = await import("./azure-notification-hubs-answers.ts");
    if (!isQueued(answer)) throw hubError(answer);
    return { id: receiptId(answer) };
  }
}

/** With the answers, most of the adapter: a mesh that has not rung anybody yet has no use for it. */
const importPayload = () => import("./azure-notification-hubs-payload.ts");

interface Hub {
  readonly url: string;
  readonly policy: SharedAccessPolicy;
}

function readHub({ connection_string, hub_name }: Options): Hub | ConnectionIssue {
  const names = ["Endpoint", "SharedAccessKeyName", "SharedAccessKey"];
  const read = readConnectionString(connection_string.reveal(), names);
  if ("issue" in read) return read;
  const [endpoint = "", name = "", key = ""] = names.map((part) => read.parts.get(part));
  const [, host] = /^(?:sb|https):\/\/([^/:]+)(?::443)?\/?$/i.exec(endpoint) ?? [];
  if (!host || !HOSTS.test(host.toLowerCase())) {
    return { issue: "must have an Endpoint such as sb://my-namespace.servicebus.windows.net/" };
  }
  const path = read.parts.get("EntityPath");
  if (path !== undefined && path !== hub_name) {
    return { issue: "is of another hub than hub_name: EntityPath and hub_name must be the same" };
  }
  // Unlike IoT Hub, which decodes it: this is the text of the key.
  return { url: `https://${host.toLowerCase()}/${hub_name}`, policy: { name, key: Buffer.from(key, "utf8") } };
}
