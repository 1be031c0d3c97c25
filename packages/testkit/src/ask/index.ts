export type { AskProcess, AskProcessDependencies, SimulatedAsk } from "./conversation.ts";
export { type Deeds, DeviceLedger, type LedgerEntry } from "./device-ledger.ts";
export { EventQueue } from "./event-queue.ts";
export {
  type CrashFault,
  drawFaultPlan,
  type FaultPlan,
  faultNames,
  type Interference,
  type JoinFault,
  type OpenFault,
  type ReplyFault,
  type RingFault,
  type RoomFault,
  type SendFault,
} from "./fault-plan.ts";
export { FaultyNotifier, type FaultyNotifierOptions } from "./faulty-notifier.ts";
export { type DeviceSeat, FaultyRoom, type RoomRecord, type SeatHandlers } from "./faulty-room.ts";
export { FaultyRooms, type FaultyRoomsOptions } from "./faulty-rooms.ts";
export { type LossProfile, lossProfiles } from "./loss-profiles.ts";
export { createRandom, type Random } from "./random.ts";
export { formatSimulation } from "./report.ts";
export { ScriptedNotifier, type SeenRing } from "./scripted-notifier.ts";
export { ScriptedRoom, ScriptedRooms } from "./scripted-rooms.ts";
export { SimulatedDevice, type SimulatedDeviceOptions } from "./simulated-device.ts";
export { type Simulation, type SimulationOptions, simulateAsks } from "./simulation.ts";
export { findViolations, type Violation } from "./truth.ts";
