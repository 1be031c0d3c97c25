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
export { type MqttOptionIssue, type MqttOptions, mqttOptionIssues, mqttOptions, mqttRoomIssues } from "./options.ts";
