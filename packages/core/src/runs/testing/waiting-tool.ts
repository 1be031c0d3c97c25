import type { CallWatcher, Tool, ToolResult, ToolScope, WaitingCall } from "../../tools/contract.ts";
import { tool } from "./tools.ts";

/** A call as its tool holds it: ends when the test says so, or when it is interrupted. */
export class HeldTestCall implements WaitingCall {
  readonly scope: ToolScope;
  readonly interruptions: string[] = [];
  #result: ToolResult | undefined;
  #watcher: CallWatcher | undefined;

  constructor(scope: ToolScope) {
    this.scope = scope;
  }

  get isEnded(): boolean {
    return this.#result !== undefined;
  }

  watch(watcher: CallWatcher): void {
    this.#watcher = watcher;
  }

  interrupt(reason: Error): void {
    this.interruptions.push(reason.message);
    this.end("interrupted");
  }

  end(content: string): void {
    if (this.#result) return;
    this.#result = { success: true, content };
    this.#watcher?.callEnded();
  }

  async result(): Promise<ToolResult> {
    if (!this.#result) throw new Error("the call has not ended");
    return this.#result;
  }
}

export interface WaitingTool {
  readonly tool: Tool;
  readonly begun: HeldTestCall[];
  /** Resolves with the call that begins as the `number`th, from 1. */
  untilBegun(number: number): Promise<HeldTestCall>;
}

export function waitingTool(name: string): WaitingTool {
  const begun: HeldTestCall[] = [];
  const watchers: (() => void)[] = [];
  return {
    begun,
    tool: tool(
      name,
      () => {
        throw new Error("the engine waits with this tool itself");
      },
      {
        ownDeadline: true,
        async begin(scope) {
          const call = new HeldTestCall(scope);
          begun.push(call);
          for (const tell of watchers) tell();
          return call;
        },
      },
    ),
    untilBegun(number) {
      return new Promise((resolve) => {
        const look = (): void => {
          const call = begun[number - 1];
          if (call) resolve(call);
        };
        watchers.push(look);
        look();
      });
    },
  };
}
