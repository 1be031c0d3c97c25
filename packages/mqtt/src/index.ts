export { checkMqtt, type MqttCheck } from "./check.ts";
export {
  type BrokerFacts,
  createMqttConnection,
  type MqttConnection,
  type MqttConnectionDependencies,
  SHARED_CONNECTION,
  type Subscription,
  type SubscriptionHandlers,
} from "./connection.ts";
export { MqttFailure, type MqttFailureKind } from "./failure.ts";
export type { Incoming } from "./link.ts";
export { type MqttOptionIssue, type MqttOptions, mqttOptionIssues, mqttOptions, mqttRoomIssues } from "./options.ts";
export type { Outgoing, Published, PublishOptions } from "./publisher.ts";
export { topicIssue } from "./topics.ts";
