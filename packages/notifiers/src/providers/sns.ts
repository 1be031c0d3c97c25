/**
 * `sns`: publishes to the endpoint that a device has in Amazon SNS, which passes it on to Google, Apple or Amazon.
 * https://docs.aws.amazon.com/sns/latest/dg/sns-mobile-application-as-subscriber.html
 */
import type { Secret } from "@leafmesh/protocol";
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
import { checkResult, createVendorClient, type VendorAnswer } from "../http/index.ts";
import {
  accessKeyFields,
  accessKeyIssues,
  awsDomain,
  awsPartition,
  REGION,
  REGION_SHAPE,
  signAws,
} from "./aws-access-key.ts";
import type { SnsPlatform } from "./sns-notification.ts";

const VERSION = "2010-03-31";
/** The whole of it, so that neither a topic, which is a broadcast, nor a phone number ever gets a ring. */
const ENDPOINT =
  /^arn:(aws|aws-cn|aws-us-gov):sns:([a-z0-9-]{6,30}):\d{12}:endpoint\/(GCM|APNS|APNS_SANDBOX|ADM)\/[A-Za-z0-9_.-]{1,256}\/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const APPLICATION =
  /<PlatformApplicationArn>(arn:[a-z-]+:sns:[a-z0-9-]+:\d{12}):app\/((?:GCM|APNS|APNS_SANDBOX|ADM)\/[\w.-]+)</g;
/** An endpoint that SNS cannot have given to a device, whose ids are made by chance. */
const NO_ENDPOINT = "00000000-0000-0000-0000-000000000000";
/** How many applications a test looks at. */
const LOOKED_AT = 5;

const options = z.strictObject({
  region: z
    .string()
    .regex(REGION, REGION_SHAPE)
    .meta({ description: "The region of your platform application, such as eu-west-1." }),
  ...accessKeyFields,
});
type Options = z.output<typeof options>;

export const snsNotifier = defineNotifier({
  provider: "sns",
  title: "Amazon SNS Mobile Push",
  description: "Rings apps on Android, Apple's and Amazon's devices through their endpoints in Amazon SNS.",
  options,
  pushToken: z
    .string()
    .max(512, "must be the ARN of a platform endpoint")
    .regex(
      ENDPOINT,
      "must be the ARN of a platform endpoint of Google (GCM), Apple (APNS, APNS_SANDBOX) or Amazon (ADM)",
    ),
  traits: { maxBytes: 3072, ttl: true, collapse: true, silent: "best-effort", link: false, deadTokens: true },
  docs: {
    setUp: [
      "In the SNS console, under Push notifications, create a platform application for Google (FCM, with a service " +
        "account), Apple or Amazon. Its region is `region`.",
      "In IAM, create a user whose only right is `sns:Publish` on `arn:aws:sns:<region>:<account>:endpoint/*`, and an " +
        "access key for it. Add `sns:ListPlatformApplications` if a connection test shall prove the rights.",
      "The app gives its token of Google or Apple to your backend, which calls `CreatePlatformEndpoint` and keeps the " +
        "endpoint's ARN. At each start it sets `Token` and `Enabled` of the endpoint anew.",
      "An app for Apple's devices registers a notification category `LEAF_ALLOW` with the actions Allow and Deny.",
    ],
    pushToken:
      "The `EndpointArn` that `CreatePlatformEndpoint` gave for this device: `arn:aws:sns:…:endpoint/GCM/…`. Topics and " +
      "phone numbers are refused, and so are endpoints of another region than `region`.",
    onTheDevice:
      "Takes the text under `leafmesh`, from the data of Google's and Amazon's notifications and from beside " +
      "`aps` in Apple's, and hands it to `handleRing`.",
    check:
      "Publishes to an endpoint that no device has. It is `readable` when the key is good and its policy names " +
      "applications that the test cannot find.",
    goodToKnow: [
      "`ask` is an alert with the category `LEAF_ALLOW` on Apple's devices, those behind Firebase included. Elsewhere it is " +
        "data with `title` and `body`, which the app shows with Allow and Deny: notifications of Google and Amazon have no " +
        "buttons.",
      "`silent` is a background notification on Apple's devices, of which iOS delivers about two or three an hour, and " +
        "data of high priority elsewhere.",
      "SNS takes a ring before it knows whether the device's token is still good. The first ring to a dead one ends as " +
        "`not_joined`; SNS then disables the endpoint, and the next ends as `unreachable` with `dead_token`.",
      "A platform application must be of the environment of the app: `APNS_SANDBOX` for builds of Xcode, else `APNS`.",

      "Temporary keys (`session_token`) are not renewed: the connection fails when they expire.",
    ],
    links: [
      "https://docs.aws.amazon.com/sns/latest/api/API_Publish.html",
      "https://docs.aws.amazon.com/sns/latest/dg/sns-send-custom-platform-specific-payloads-mobile-devices.html",
      "https://docs.aws.amazon.com/sns/latest/dg/sns-fcm-v1-payloads.html",
      "https://docs.aws.amazon.com/sns/latest/dg/sns-ttl.html",
    ],
  },
  validate: accessKeyIssues,
  create: (fields, dependencies) => new Sns(fields, dependencies),
});

class Sns implements Notifier {
  readonly #options;
  readonly #clock;
  readonly #client;

  constructor(fields: Options, { clock, network }: ProviderDependencies) {
    this.#options = fields;
    this.#clock = clock;
    this.#client = createVendorClient({ clock, network });
  }

  async ring(request: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    const arn = to.reveal();
    const [, partition, region, platform] = ENDPOINT.exec(arn) ?? [];
    if (region !== this.#options.region || partition !== awsPartition(region)) {
      const message = "The push token is an endpoint of another region than the connection's: SNS rings none of those.";
      throw new RingError("bad_request", message, { code: "region" });
    }
    const { snsNotification } = await import("./sns-notification.ts");
    const { message, attributes } = snsNotification(platform as SnsPlatform, request, this.#clock.nowMs());
    return {
      id: await this.#publish(arn, { Message: message, MessageStructure: "json", ...entries(attributes) }, signal),
    };
  }

  /** Publishes where nobody is: SNS looks at the right before it looks for the endpoint. */
  check(signal: AbortSignal): Promise<CheckResult> {
    return checkResult(async () => {
      const { applications, isAll } = await this.#applications(signal);
      if (applications.length === 0) {
        const reason = `AWS takes the access key, and ${this.#options.region} has no platform application of Google, Apple or Amazon.`;
        return { status: "readable", reason };
      }
      for (const application of applications)
        if (await this.#mayPublish(application, signal)) return { status: "active" };
      return isAll
        ? { status: "failing", reason: "The access key may not publish: give its user the right sns:Publish." }
        : { status: "readable", reason: "AWS takes the access key; a ring alone can show whether it may publish." };
    });
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  /** What the key may see of the account's applications, or a made-up one: by their endpoints' ARNs, without the last part. */
  async #applications(
    signal: AbortSignal,
  ): Promise<{ readonly applications: readonly string[]; readonly isAll: boolean }> {
    const { isRightMissing } = await import("./sns-answers.ts");
    try {
      const { text } = await this.#call(
        { Action: "ListPlatformApplications" },
        signal,
        ({ status, text }) => status === 200 && text.includes("<ListPlatformApplicationsResult"),
      );
      const found = [...text.matchAll(APPLICATION)].map(([, account, name]) => `${account}:endpoint/${name}`);
      return {
        applications: found.slice(0, LOOKED_AT),
        isAll: found.length <= LOOKED_AT && !text.includes("<NextToken>"),
      };
    } catch (error) {
      if (!isRightMissing(error)) throw error;
    }
    // A key that may do nothing else, as it should be.
    const { callerAccount } = await import("./aws-caller.ts");
    const { region } = this.#options;
    const account = await callerAccount(this.#client, this.#clock, this.#options, region, signal);
    const made = `arn:${awsPartition(region)}:sns:${region}:${account}:endpoint/GCM/leafmesh-check`;
    return { applications: [made], isAll: false };
  }

  async #mayPublish(application: string, signal: AbortSignal): Promise<boolean> {
    const { isRightMissing } = await import("./sns-answers.ts");
    try {
      await this.#publish(`${application}/${NO_ENDPOINT}`, { Message: "-" }, signal);
    } catch (error) {
      if (error instanceof RingError && error.kind === "dead_token") return true;
      if (isRightMissing(error)) return false;
      throw error;
    }
    throw new RingError("transient", "SNS took a message for an endpoint that cannot be.");
  }

  async #publish(arn: string, fields: Readonly<Record<string, string>>, signal: AbortSignal): Promise<string> {
    const { publishedId } = await import("./sns-answers.ts");
    const answer = await this.#call(
      { Action: "Publish", TargetArn: arn, ...fields },
      signal,
      (given) => publishedId(given) !== undefined,
    );
    return publishedId(answer) ?? "";
  }

  /** Throws {@link RingError} for every answer that `isGood` does not take. */
  async #call(
    fields: Readonly<Record<string, string>>,
    signal: AbortSignal,
    isGood: (answer: VendorAnswer) => boolean,
  ): Promise<VendorAnswer> {
    const { region } = this.#options;
    const request = await signAws(
      {
        url: `https://sns.${region}.${awsDomain(region)}/`,
        method: "POST",
        headers: { "content-type": "application/x-www-form-urlencoded; charset=utf-8" },
        body: new URLSearchParams({ ...fields, Version: VERSION }).toString(),
        service: "sns",
        region,
      },
      this.#options,
      this.#clock,
    );
    const answer = await this.#client.request({ ...request, signal });
    const { snsError } = await import("./sns-answers.ts");
    if (!isGood(answer)) throw snsError(answer);
    return answer;
  }
}

/** https://docs.aws.amazon.com/sns/latest/api/API_MessageAttributeValue.html */
function entries(attributes: Readonly<Record<string, string>>): Record<string, string> {
  const fields: Record<string, string> = {};
  for (const [index, [name, value]] of Object.entries(attributes).entries()) {
    const at = `MessageAttributes.entry.${index + 1}`;
    fields[`${at}.Name`] = name;
    fields[`${at}.Value.DataType`] = "String";
    fields[`${at}.Value.StringValue`] = value;
  }
  return fields;
}
