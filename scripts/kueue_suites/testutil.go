// SPDX-License-Identifier: Apache-2.0

// Package testutil takes the place of component-base's package of that name in Kueue's integration
// suites: it reads a series from Kuota's metrics instead of from this process.
package testutil

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"sigs.k8s.io/kueue/pkg/util/standin"
)

var fqName = regexp.MustCompile(`fqName: "([^"]+)"`)

// baselines holds, by name, the series of counters that a spec has reset.
var baselines = map[string][]*dto.Metric{}

func nameOf(desc *prometheus.Desc) string {
	return fqName.FindStringSubmatch(desc.String())[1]
}

func collectorName(metric prometheus.Collector) string {
	descriptions := make(chan *prometheus.Desc, 1)
	metric.Describe(descriptions)
	return nameOf(<-descriptions)
}

func family(name string) ([]*dto.Metric, error) {
	text, err := standin.Metrics()
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return families[name].GetMetric(), nil
}

func find(among []*dto.Metric, wanted *dto.Metric) *dto.Metric {
	for _, each := range among {
		if labels(each) == labels(wanted) {
			return each
		}
	}
	return nil
}

// Reset makes the counters of a metric start at zero, as Reset of a vector does in Kueue's process.
func Reset(metric prometheus.Collector) {
	name := collectorName(metric)
	found, err := family(name)
	if err != nil {
		panic(err)
	}
	baselines[name] = found
}

// Series is everything that Kuota reports about a metric.
func Series(metric prometheus.Collector) []*dto.Metric {
	found, err := family(collectorName(metric))
	if err != nil {
		panic(err)
	}
	return found
}

func series(metric any) (*dto.Metric, error) {
	local, ok := metric.(prometheus.Metric)
	if !ok {
		return nil, fmt.Errorf("%T is not a metric", metric)
	}
	var wanted dto.Metric
	if err := local.Write(&wanted); err != nil {
		return nil, err
	}
	name := nameOf(local.Desc())
	all, err := family(name)
	if err != nil {
		return nil, err
	}
	found := find(all, &wanted)
	before := find(baselines[name], &wanted)
	// A value below the baseline belongs to a process that has started since.
	if value := before.GetCounter().GetValue(); value > 0 && found.GetCounter().GetValue() >= value {
		*found.Counter.Value -= value
	}
	return found, nil
}

func labels(metric *dto.Metric) string {
	pairs := map[string]string{}
	for _, each := range metric.Label {
		pairs[each.GetName()] = each.GetValue()
	}
	return fmt.Sprint(pairs)
}

// GetGaugeMetricValue is the value that Kuota reports, 0 where it has no such series.
func GetGaugeMetricValue(metric any) (float64, error) {
	found, err := series(metric)
	return found.GetGauge().GetValue(), err
}

// GetCounterMetricValue is the value that Kuota reports, 0 where it has no such series.
func GetCounterMetricValue(metric any) (float64, error) {
	found, err := series(metric)
	return found.GetCounter().GetValue(), err
}

// GetHistogramMetricCount is the number of samples that Kuota reports.
func GetHistogramMetricCount(metric any) (uint64, error) {
	found, err := series(metric)
	return found.GetHistogram().GetSampleCount(), err
}
