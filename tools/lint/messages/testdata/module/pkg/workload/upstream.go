package workload

import kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"

func upstreams(check kueue.AdmissionCheckState) bool {
	return check.Message == "text"
}
