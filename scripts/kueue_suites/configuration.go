// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"fmt"
	"sort"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
)

// configuration is the file that Kuota reads: what the suite configured, at addresses of this process.
func configuration(host string, port int, certificates string, metricsPort int) map[string]any {
	base := setup.Configuration
	if base == nil {
		base = &config.Configuration{}
	}
	base = base.DeepCopy()
	base.APIVersion, base.Kind = "config.kueue.x-k8s.io/v1beta2", "Configuration"
	no := false
	base.InternalCertManagement = &config.InternalCertManagement{Enable: &no}
	base.Webhook.Host, base.Webhook.Port, base.Webhook.CertDir = host, &port, certificates
	base.Metrics.BindAddress = fmt.Sprintf("127.0.0.1:%d", metricsPort)
	base.Health.HealthProbeBindAddress = "0"
	qps, burst := float32(1000), int32(2000)
	base.ClientConnection = &config.ClientConnection{QPS: &qps, Burst: &burst}
	base.LeaderElection = nil
	applyOptions(base)
	if setup.Dispatching != nil {
		base.MultiKueue, base.Namespace = setup.Dispatching, &setup.Namespace
		base.MultiKueue.ExternalFrameworks = setup.ExternalFrameworks
	}
	text, err := yaml.Marshal(base)
	if err != nil {
		panic(err)
	}
	tree := map[string]any{}
	if err := yaml.Unmarshal(text, &tree); err != nil {
		panic(err)
	}
	tree["leaderElection"] = map[string]any{"leaderElect": false}
	return tree
}

func applyOptions(base *config.Configuration) {
	if setup.Transformations != nil || setup.ExcludedPrefixes != nil || setup.QuotaCheckStrategy != "" {
		if base.Resources == nil {
			base.Resources = &config.Resources{}
		}
		if setup.Transformations != nil {
			base.Resources.Transformations = setup.Transformations
		}
		if setup.ExcludedPrefixes != nil {
			base.Resources.ExcludeResourcePrefixes = setup.ExcludedPrefixes
		}
		if setup.QuotaCheckStrategy != "" {
			base.Resources.QuotaCheckStrategy = &setup.QuotaCheckStrategy
		}
	}
	if setup.FairSharing != nil {
		base.FairSharing = setup.FairSharing.DeepCopy()
	}
	// A suite may set the options of the scheduler without defaults, which a file gets from Kueue.
	if base.FairSharing != nil && len(base.FairSharing.PreemptionStrategies) == 0 {
		base.FairSharing.PreemptionStrategies = []config.PreemptionStrategy{
			config.LessThanOrEqualToFinalShare, config.LessThanInitialShare,
		}
	}
	if setup.AdmissionFairSharing != nil {
		base.AdmissionFairSharing = setup.AdmissionFairSharing
	}
	if setup.ResourceMetrics {
		base.Metrics.EnableClusterQueueResources = true
	}
	base.ManageJobsWithoutQueueName = base.ManageJobsWithoutQueueName || setup.ManageJobsWithoutQueueName
	if base.Integrations == nil {
		base.Integrations = &config.Integrations{}
	}
	base.Integrations.Frameworks = nil
	for name := range setup.Frameworks {
		base.Integrations.Frameworks = append(base.Integrations.Frameworks, name)
	}
	sort.Strings(base.Integrations.Frameworks)
	if len(setup.LabelKeysToCopy) > 0 {
		base.Integrations.LabelKeysToCopy = setup.LabelKeysToCopy
	}
	for _, key := range setup.AnnotationsToCopy {
		if isSource(base.Metrics.CustomLabels, key) {
			continue
		}
		kind := config.SourceKindWorkload
		base.Metrics.CustomLabels = append(base.Metrics.CustomLabels, config.ControllerMetricsCustomLabel{
			Name: fmt.Sprintf("annotation_%d", len(base.Metrics.CustomLabels)), SourceAnnotationKey: key,
			SourceKind: &kind, TrackedValues: []string{"any"},
		})
	}
	if setup.NamespaceSelector != nil {
		base.ManagedJobsNamespaceSelector = selector(setup.NamespaceSelector)
	}
	if setup.WaitForPodsReady && base.WaitForPodsReady == nil {
		base.WaitForPodsReady = &config.WaitForPodsReady{Timeout: metav1.Duration{Duration: time.Hour}}
	}
}

// isSource says whether a custom label has the values of an annotation, which is then copied.
func isSource(among []config.ControllerMetricsCustomLabel, annotation string) bool {
	for _, each := range among {
		if each.SourceAnnotationKey == annotation {
			return true
		}
	}
	return false
}

func selector(from labels.Selector) *metav1.LabelSelector {
	text, err := metav1.ParseToLabelSelector(from.String())
	if err != nil {
		panic(err)
	}
	return text
}
