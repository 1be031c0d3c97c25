/** One entry a push provider: its double, and what a mesh and a device need to use it. */
import { systemClock } from "@leafmesh/protocol";
import { startAzureNotificationHubs, type VendorReply } from "@leafmesh/testkit/notifiers";
import type { NotifierDouble } from "@leafmesh/testkit/suites";
import { startExamplePush } from "../../packages/notifiers/testing/example-push-double.ts";

export interface PushVendor {
  readonly provider: string;
  /** Starts the double with the real clock. */
  open(): Promise<{
    readonly double: NotifierDouble;
    /** Fields of the connection record. Strings are written into mesh.yaml as JSON, which YAML reads. */
    readonly record: Readonly<Record<string, unknown>>;
  }>;
  readonly pushToken: string;
  /** What the vendor answers about a dead token; left out where it never says so. */
  readonly deadToken?: VendorReply;
}

export const pushVendors: readonly PushVendor[] = [
  {
    provider: "example_push",
    async open() {
      const double = await startExamplePush(systemClock, { id: "my-app", key: "the-key-of-my-app" });
      return { double, record: { app_id: "my-app", app_key: "the-key-of-my-app" } };
    },
    pushToken: "dev-0123456789abcdef",
    deadToken: { status: 404, body: { error: "unregistered" } },
  },
  {
    provider: "azure_notification_hubs",
    async open() {
      const host = "phones-of-acme.servicebus.windows.net";
      const key = "a2V5IG9mIHRoZSBwb2xpY3kgdGhhdCBtYXkgc2VuZA==";
      const policies = { Ring: { key, rights: ["Send"] } } as const;
      const double = await startAzureNotificationHubs(systemClock, { host, hub: "phones", policies });
      const parts = [`Endpoint=sb://${host}/`, "SharedAccessKeyName=Ring", `SharedAccessKey=${key}`];
      return { double, record: { connection_string: parts.join(";"), hub_name: "phones", payload_format: "apple" } };
    },
    pushToken: "0123456789abcdef".repeat(4),
  },
];
