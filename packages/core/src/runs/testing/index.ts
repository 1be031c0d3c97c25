/** For the tests of the engine: a mesh, a model that follows a function, tools that count, stores that die, checks. */
export { converse, type HarnessOptions, harness, passTime } from "./harness.ts";
export { checkHistory, checkRequest } from "./history-checks.ts";
export { recordingLogger } from "./logger.ts";
export { testAgent, testMesh } from "./mesh.ts";
export { call, calls, FunctionModel, says, scripted, silentModel } from "./models.ts";
export { createDisk, type Death, memoryBackend, mortalBackend } from "./stores.ts";
export { callName, done, recordingTool, tool } from "./tools.ts";
export { waitingTool } from "./waiting-tool.ts";
