/*
Copyright The Kubernetes Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package conformance

// Rule is something that the controller of an admission check has to observe.
type Rule string

const (
	RuleActive       Rule = "active"
	RuleAnswers      Rule = "answers"
	RuleRefused      Rule = "refused"
	RuleQuota        Rule = "quota"
	RuleEvicted      Rule = "evicted"
	RuleTakesBack    Rule = "takes-back"
	RuleFreshTime    Rule = "fresh-time"
	RuleRetryCount   Rule = "retry-count"
	RuleOtherChecks  Rule = "other-checks"
	RuleKueueStatus  Rule = "kueue-status"
	RuleTriesAgain   Rule = "tries-again"
	RuleStaleAnswer  Rule = "stale-answer"
	RuleInactive     Rule = "inactive"
	RuleRemovedCheck Rule = "removed-check"
	RuleRestart      Rule = "restart"
)

// ruleText says a rule in words.
type ruleText struct {
	rule Rule
	// must is what the controller has to do.
	must string
	// then is what happens to the workload where it does not.
	then string
	// instead is what to do.
	instead string
}

// ruleTexts holds the rules in the order of the report.
var ruleTexts = []ruleText{
	{
		rule:    RuleActive,
		must:    "sets the Active condition of its AdmissionCheck",
		then:    "A ClusterQueue with a check that is not active is not active: none of its workloads starts.",
		instead: "Set the condition Active=True in the status of each AdmissionCheck whose spec.controllerName is yours.",
	},
	{
		rule:    RuleAnswers,
		must:    "answers each time a workload has quota reserved and its check is Pending",
		then:    "The workload keeps its quota, does not start, and nothing will change that.",
		instead: "Reconcile each workload that has QuotaReserved=True and your check in Pending, also for the second time. Remember nothing from the round before.",
	},
	{
		rule:    RuleRefused,
		must:    "writes what the API server accepts",
		then:    "The answer is lost, the check stays as it is.",
		instead: "Read the message of the API server. Times must be set, delays and counts not be negative.",
	},
	{
		rule:    RuleQuota,
		must:    "answers only workloads that have quota reserved",
		then:    "A Retry takes the workload out of the queue for a delay that nobody needed; a Ready may be long out of date when quota is reserved.",
		instead: "Do nothing while the workload is in the queue: QuotaReserved is not True, and Requeued is not False. (Evicted is True still after a requeue.) Look at it again after a conflict, before you write the second time.",
	},
	{
		rule:    RuleEvicted,
		must:    "leaves its Retry alone while the workload waits, if nothing has changed",
		then:    "Each write with a fresh transition time is a request for a new delay: the deadline moves on and on, and the workload may never come back.",
		instead: "Leave a Retry alone that you have written, until the check is Pending again. Write only if the delay you ask for has really changed.",
	},
	{
		rule:    RuleTakesBack,
		must:    "keeps to its Retry while the workload waits, if nothing has changed",
		then:    "The delay that it asked for is over at once, and the workload comes back for nothing.",
		instead: "Take a Retry back only when the reason for it is gone. Kueue sets the check to Pending when the delay is over.",
	},
	{
		rule:    RuleFreshTime,
		must:    "sets a fresh lastTransitionTime with each Retry",
		then:    "A delay that is changed counts from the eviction, and not from now.",
		instead: "Set lastTransitionTime to the current time with each new answer. Do not copy the entry that is there, nor use SetAdmissionCheckState on a list that has it: it keeps an old time.",
	},
	{
		rule:    RuleRetryCount,
		must:    "leaves retryCount to Kueue",
		then:    "The count is lost or wrong, and a back-off that is computed from it starts again, or does not grow.",
		instead: "Read retryCount, never write it: leave it out of what you apply. If you update or merge patch the list, send the count that you read, with the resource version.",
	},
	{
		rule:    RuleOtherChecks,
		must:    "leaves the entries of other checks alone",
		then:    "The answer of another check is undone. It will not be given a second time: the workload hangs, or starts without it.",
		instead: "Apply your own entry alone with a field manager of your own. A merge patch replaces the whole list, so it must carry all entries, as you have read them, and the resource version.",
	},
	{
		rule:    RuleKueueStatus,
		must:    "leaves the rest of the status alone",
		then:    "What Kueue or a user had decided in between is undone.",
		instead: "Apply nothing but your own entry in status.admissionChecks, with a field manager of your own.",
	},
	{
		rule:    RuleTriesAgain,
		must:    "tries again when the API server refuses a write because of a conflict",
		then:    "The answer is lost: the workload keeps its quota and does not start.",
		instead: "Return the error from Reconcile, or ask to be called again. The next call decides on the fresh object.",
	},
	{
		rule:    RuleStaleAnswer,
		must:    "does not write an answer to a question that was asked before",
		then:    "The answer counts for a round for which it was not made: the workload starts on an old Ready, or waits for an old Retry.",
		instead: "Send the resource version that you decided on with the write (also with server-side apply: metadata.resourceVersion), and decide anew after a conflict.",
	},
	{
		rule:    RuleInactive,
		must:    "leaves workloads alone that are deactivated, finished or deleted",
		then:    "A deactivated workload that is activated again does not start as new: it carries an answer that nobody asked for.",
		instead: "Do nothing if spec.active is false, if the condition Finished is True or if the object has a deletionTimestamp. If you look at these already, you have looked at an old copy: an event that came late, a cache that is behind. Send the resource version of the copy that you decided on, so that the API server refuses the write, and after that read the workload again.",
	},
	{
		rule:    RuleRemovedCheck,
		must:    "does not create its entry where Kueue has removed it",
		then:    "Kueue removes the entry again. A controller that answers whatever it sees creates it again, and the two go on, many times a second.",
		instead: "Answer only if your entry is in status.admissionChecks, and send the resource version.",
	},
	{
		rule:    RuleRestart,
		must:    "picks up what happened while it was down",
		then:    "The workload keeps its quota and does not start.",
		instead: "Keep nothing in memory that is not in the object: what is to be done follows from the workload alone.",
	},
}
