package flagged

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A test may look at messages.
func testHelper(cond metav1.Condition) bool { return cond.Message == wanted }
