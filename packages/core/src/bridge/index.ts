export type { DeviceToolAnswer, DeviceToolAnswered } from "./answer-call.ts";
export { createDeviceToolBridge, type DeviceToolBridge } from "./bridge.ts";
export { BRIDGE_ERRORS, bridgeToolResult } from "./bridge-result.ts";
export { type BoundTools, bindDeviceTools, type DeclarationProblem } from "./declarations.ts";
export { endingSettlement, endingStory } from "./endings.ts";
