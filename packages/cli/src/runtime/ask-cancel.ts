/** Cancels asks, whichever process of the mesh drives them. */
import type { Backend } from "@leafmesh/core";
import { isOpenCall } from "@leafmesh/core/calls";
import type { DeviceAction } from "@leafmesh/device-action";
import type { Clock, Logger } from "@leafmesh/protocol";

type Cancelled = Awaited<ReturnType<DeviceAction["cancel"]>>;

const TOPIC = "ask.cancel";
const LOOK_EVERY_MS = 100;
/** The driving process may be dead: the ask is then ended by the process that takes its run over. */
const GIVE_UP_AFTER_MS = 25_000;

export interface AskCancel {
  cancel(askId: string): Promise<Cancelled>;
  close(): void;
}

export function createAskCancel(
  backend: Backend,
  deviceAction: () => DeviceAction,
  clock: Clock,
  logger: Logger,
): AskCancel {
  const { peers } = backend;
  const stopListening = peers?.listen(TOPIC, ({ ask }) => {
    if (typeof ask !== "string") return;
    deviceAction()
      .cancel(ask)
      .catch((error: unknown) => logger.error("an ask could not be cancelled", { ask, error }));
  });

  return {
    async cancel(askId) {
      const here = await deviceAction().cancel(askId);
      if (here !== "unknown" || !peers) return here;
      const giveUpAt = clock.monotonicMs() + GIVE_UP_AFTER_MS;
      for (let looks = 0; clock.monotonicMs() < giveUpAt; looks++) {
        const call = await backend.call(askId);
        if (!call) return "unknown";
        if (!isOpenCall(call)) return isCancelled(call.result) ? "cancelled" : "already_settled";
        if (looks % 10 === 0) peers.tell(TOPIC, { ask: askId });
        await new Promise<void>((resolve) => clock.schedule(LOOK_EVERY_MS, resolve));
      }
      return "unknown";
    },
    close: () => stopListening?.(),
  };
}

function isCancelled(result: unknown): boolean {
  return typeof result === "object" && result !== null && "reason" in result && result.reason === "cancelled";
}
