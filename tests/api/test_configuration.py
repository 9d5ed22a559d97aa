"""The configuration file: its defaults, and errors that say what is right."""

from __future__ import annotations

import re

import pytest
import yaml

from tutti.api.configuration import TuttiConfiguration, load_configuration
from tutti.api.problems import ConfigurationError

# What kube-scheduler 1.36 refuses too: apis/config/validation/validation_pluginargs.go; and what would have no effect.
PROFILE_PROBLEMS = [
    (f"profiles: [{{{text}}}]", f"profiles[0].{path}", message)
    for text, path, message in (
        ("scoringStrategy: {type: Least}", "scoringStrategy.type", "'MostAllocated' or 'RequestedToCapacityRatio'"),
        (
            "scoringStrategy: {resources: [{name: cpu, weight: 101}]}",
            "scoringStrategy.resources[0].weight",
            "less than or equal to 100",
        ),
        ("scoringStrategy: {resources: [{name: '*'}]}", "scoringStrategy.resources[0].name", "'*' does not have"),
        ("scoringStrategy: {resources: [{name: cpu}, {name: cpu}]}", "scoringStrategy", "twice"),
        ("scoringStrategy: {type: RequestedToCapacityRatio}", "scoringStrategy", "and only with it"),
        (
            "scoringStrategy: {requestedToCapacityRatio: {shape: [{utilization: 0, score: 1}]}}",
            "scoringStrategy",
            "and only with it",
        ),
        (
            "scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: []}}",
            "scoringStrategy.requestedToCapacityRatio.shape",
            "at least 1",
        ),
        (
            (
                "scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio:"
                " {shape: [{utilization: 9, score: 0}, {utilization: 9, score: 1}]}}"
            ),
            "scoringStrategy.requestedToCapacityRatio",
            "must be above that of the point before",
        ),
        (
            (
                "scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio:"
                " {shape: [{utilization: 0, score: 11}]}}"
            ),
            "scoringStrategy.requestedToCapacityRatio.shape[0].score",
            "less than or equal to 10",
        ),
        ("balancedAllocation: {resources: [{name: cpu, weight: 2}]}", "balancedAllocation.resources[0].weight", "be 1"),
        ("ignoredResources: [cpu]", "ignoredResources[0]", "'cpu' does not have the form"),
        ("ignoredResourceGroups: [example.com/gpu]", "ignoredResourceGroups[0]", "does not have the form"),
        ("interPodAffinity: {hardPodAffinityWeight: 101}", "interPodAffinity.hardPodAffinityWeight", "equal to 100"),
        (
            "podTopologySpread: {defaultConstraints: [{topologyKey: a, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}]}",
            "podTopologySpread",
            "needs defaultingType List",
        ),
        (
            (
                "podTopologySpread: {defaultingType: List, defaultConstraints:"
                " [{topologyKey: a, maxSkew: 0, whenUnsatisfiable: ScheduleAnyway}]}"
            ),
            "podTopologySpread.defaultConstraints[0].maxSkew",
            "greater than or equal to 1",
        ),
        (
            (
                "podTopologySpread: {defaultingType: List, defaultConstraints:"
                " [{topologyKey: a, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}"
            ),
            "podTopologySpread.defaultConstraints[0].labelSelector",
            "there is no such field",
        ),
        (
            (
                "podTopologySpread: {defaultingType: List, defaultConstraints:"
                " [{topologyKey: a, maxSkew: 1, whenUnsatisfiable: DoNotSchedule},"
                " {topologyKey: a, maxSkew: 2, whenUnsatisfiable: DoNotSchedule}]}"
            ),
            "podTopologySpread",
            "keep one",
        ),
        ("nodeAffinity: {addedAffinity: {}}", "nodeAffinity.addedAffinity", "must have required or preferred terms"),
        (
            (
                "nodeAffinity: {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution:"
                " [{weight: 1, preference: {matchExpressions: [{key: a, operator: Gt, values: [x]}]}}]}}"
            ),
            (
                "nodeAffinity.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference"
                ".matchExpressions[0]"
            ),
            "Gt and Lt one integer",
        ),
        ("plugins: {score: {disabled: [{name: ImageLocalty}]}}", "plugins.score", "did you mean 'ImageLocality'?"),
        (
            "plugins: {score: {enabled: [{name: ImageLocality, weight: 0}]}}",
            "plugins.score.enabled[0].weight",
            "greater than or equal to 1",
        ),
        (
            "plugins: {score: {enabled: [{name: ImageLocality}], disabled: [{name: ImageLocality}]}}",
            "plugins.score",
            "stands here twice",
        ),
        ("plugins: {score: {enabled: [{name: '*'}]}}", "plugins.score", "goes under disabled only"),
        ("acceleratorPacking: {resources: []}", "acceleratorPacking.resources", "at least 1"),
        ("acceleratorPacking: {resources: [cpu]}", "acceleratorPacking", "a resource here has a domain"),
        ("acceleratorPacking: {weight: 0}", "acceleratorPacking.weight", "greater than or equal to 1"),
    )
]


def test_an_empty_file_gives_the_defaults():
    for text in ("", "---\n", "# nothing\n", "{}"):
        assert load_configuration(text) == TuttiConfiguration()
    assert load_configuration("").scheduler_names == ["tutti"]
    assert load_configuration("").profiles[0].scoring_strategy.type == "LeastAllocated"
    assert load_configuration("").permit_timeout_seconds == 300
    assert load_configuration("").volume_binding_timeout_seconds == 600  # kube-scheduler 1.36, VolumeBindingArgs


def test_a_full_file_is_read():
    configuration = load_configuration(
        """
        apiVersion: scheduling.tutti.dev/v1alpha1
        kind: TuttiConfiguration
        profiles:
        - schedulerName: tutti
          scoringStrategy:
            type: MostAllocated
            resources: [{name: nvidia.com/gpu, weight: 5}, {name: cpu}]
        - schedulerName: tutti-spread
        requireQueue: true
        backoff: {baseSeconds: 2, maxSeconds: 60}
        seed: 7
        clientConnection: {concurrency: 16}
        conventions: {pfnetPrefix: example.com/gang, volcano: false}
        leaderElection: {enabled: false}
        metrics: {bindAddress: "127.0.0.1:9000"}
        webhook: {enabled: true, port: 8443}
        logging: {format: console, level: debug}
        """
    )

    assert configuration.scheduler_names == ["tutti", "tutti-spread"]
    assert configuration.profiles[0].scoring_strategy.resources[0].weight == 5
    assert configuration.conventions.pfnet_prefix == "example.com/gang"
    assert not configuration.conventions.volcano
    assert configuration.require_queue


SPREAD = "{topologyKey: zone, maxSkew: %d, whenUnsatisfiable: %s}"
AFFINITY = "{matchExpressions: [{key: a, operator: Exists}]}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        *(
            f"profiles: [{{podTopologySpread: {{defaultingType: List, defaultConstraints: [{SPREAD % (skew, what)}]}}}}]"
            for skew, what in ((1, "DoNotSchedule"), (2, "ScheduleAnyway"))
        ),
        (
            "profiles: [{nodeAffinity: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution:"
            f" {{nodeSelectorTerms: [{AFFINITY}]}}, preferredDuringSchedulingIgnoredDuringExecution:"
            f" [{{weight: 1, preference: {AFFINITY}}}]}}}}}}]"
        ),
        (
            "profiles: [{scoringStrategy: {type: RequestedToCapacityRatio,"
            " requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}]"
        ),
        (
            "extenders: [{urlPrefix: 'https://there/x', filterVerb: f, httpTimeout: 1m30.5s, enableHTTPS: true,"
            " managedResources: [{name: example.com/slice, ignoredByScheduler: true}], tlsConfig: {serverName: gpu}}]"
        ),
    ],
    ids=["defaults", "what is the default of a pod", "what is not", "affinity", "shape", "extender"],
)
def test_what_is_written_out_is_read_back(text):
    """As in the header of a journal, without which it could not be replayed."""
    configuration = load_configuration(text)
    assert load_configuration(yaml.safe_dump(configuration.model_dump(by_alias=True))) == configuration
    assert TuttiConfiguration.model_validate_json(configuration.model_dump_json(by_alias=True)) == configuration


PROMETHEUS = "source: Prometheus, address: 'http://p:9090', queries: {temperature: up}"


def test_a_scaling_factor_that_is_left_out_keeps_its_default():
    read = load_configuration(f"measurements: {{{PROMETHEUS}, estimates: {{estimatedScalingFactors: {{cpu: 110}}}}}}")

    assert read.measurements is not None
    assert read.measurements.estimates.estimated_scaling_factors.cpu == 110
    assert read.measurements.estimates.estimated_scaling_factors.memory == 70


@pytest.mark.parametrize(
    ("measurements", "load", "message"),
    [
        ("", "thresholds: [{metric: cpu, above: 100}]", "above must be at least 0 and less than 100"),
        ("", "thresholds: [{metric: cpu, above: 650}]", "cpu is percent of the machine"),
        ("", "thresholds: [{metric: memory, above: -1}]", "above must be at least 0"),
        ("", "thresholds: [{metric: memory, below: 0}]", "below must be more than 0 and at most 100"),
        ("", "thresholds: [{metric: cpu-deviation, above: 5}]", "others need source Prometheus"),
        ("", "thresholds: [{metric: temperature, above: 85}]", "measured are cpu, memory"),
        (PROMETHEUS, "thresholds: [{metric: temperatur, above: 85}]", "did you mean temperature?"),
        (PROMETHEUS, "thresholds: [{metric: power, above: 85}]", "give others a query under measurements.queries"),
        (PROMETHEUS, "thresholds: [{metric: cpu-deviation, above: 200}]", "less than 100"),
        ("", "policy: LoadVariationRiskBalancing", "goes by deviations, which MetricsServer has not"),
    ],
)
def test_load_that_could_never_be_is_refused(measurements, load, message):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        load_configuration(f"measurements: {{{measurements}}}\nprofiles: [{{load: {{{load}}}}}]")


@pytest.mark.parametrize(
    ("measurements", "load"),
    [
        ("", "thresholds: [{metric: cpu, above: 99.5}, {metric: memory, above: 0}, {metric: cpu, below: 100}]"),
        (PROMETHEUS, "policy: LoadVariationRiskBalancing, thresholds: [{metric: temperature, above: 850}]"),
        ("", "policy: LowRiskOverCommitment"),
    ],
)
def test_load_that_can_be_is_read(measurements, load):
    load_configuration(f"measurements: {{{measurements}}}\nprofiles: [{{load: {{{load}}}}}]")


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("permitTimeoutSecond: 3", "permitTimeoutSecond", "did you mean 'permitTimeoutSeconds'?"),
        ("backoff: {base: 3}", "backoff.base", "did you mean 'baseSeconds'?"),
        ("profiles: [{schedulername: a}]", "profiles[0].schedulername", "did you mean 'schedulerName'?"),
        (
            "profiles: [{}, {schedulerName: b, scoringStrategy: {resources: [{nme: cpu}]}}]",
            "profiles[1].scoringStrategy.resources[0].nme",
            "did you mean 'name'?",
        ),
        ("logging: {zzz: 1}", "logging.zzz", "known here: format, level"),
        ("permitTimeoutSeconds: soon", "permitTimeoutSeconds", "'soon'"),
        ("permitTimeoutSeconds: 0", "permitTimeoutSeconds", "greater than or equal to 1"),
        ("logging: {level: loud}", "logging.level", "'debug', 'info', 'warning' or 'error', not 'loud'"),
        ("backoff: {baseSeconds: 9, maxSeconds: 3}", "backoff", "maxSeconds cannot be below baseSeconds"),
        ("leaderElection: {leaseDurationSeconds: 5}", "leaderElection", "must be above renewDeadlineSeconds"),
        ("profiles: [{}, {}]", "", "each schedulerName needs one profile, and only one: tutti, tutti"),
        ("profiles: []", "profiles", "at least 1"),
        *PROFILE_PROBLEMS,
        ("kind: KubeSchedulerConfiguration", "kind", "'TuttiConfiguration'"),
        ("metrics: {bindAddress: '8080'}", "metrics.bindAddress", "does not have the form"),
        ("[1]", "", "must be a mapping"),
        ("a: [", "", "this is not YAML"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_its_place_and_what_is_right(text, path, message):
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(text, "tutti.yaml")

    found = {problem.path: problem.message for problem in caught.value.problems}
    assert message in found[path]
    assert len(found) == 1 or set(found) == {path, "profiles[1].scoringStrategy.resources[0].name"}
    assert str(caught.value).startswith("tutti.yaml: ")


def test_every_problem_is_reported_at_once():
    with pytest.raises(ConfigurationError) as caught:
        load_configuration("seeed: 1\nlogging: {level: loud}\nbackoff: {baseSeconds: -1}")

    assert {problem.path for problem in caught.value.problems} == {"seeed", "logging.level", "backoff.baseSeconds"}


EXTENDER = "extenders: [{urlPrefix: http://there/x, filterVerb: filter"


def test_an_extender_is_read_as_kube_scheduler_writes_it():
    (extender,) = load_configuration(
        """
        extenders:
        - urlPrefix: https://gpu.example.com:8443/scheduler
          filterVerb: filter
          prioritizeVerb: prioritize
          weight: 2
          enableHTTPS: true
          httpTimeout: 1m30.5s
          nodeCacheCapable: true
          ignorable: true
          tlsConfig: {caFile: /etc/ca.pem, serverName: gpu}
          managedResources: [{name: example.com/slice, ignoredByScheduler: true}, {name: example.com/other}]
        """
    ).extenders

    assert extender.timeout_seconds == 90.5
    assert extender.manages == {"example.com/slice", "example.com/other"}
    assert extender.enable_https
    assert load_configuration(EXTENDER + "}]").extenders[0].timeout_seconds == 5.0


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (EXTENDER + ", bindVerb: bind}]", "extenders[0]", "Tutti binds all pods of a gang itself"),
        (EXTENDER + ", preemptVerb: preempt}]", "extenders[0]", "preemptVerb is not supported"),
        ("extenders: [{urlPrefix: http://there}]", "extenders[0]", "is never asked"),
        ("extenders: [{urlPrefix: there, filterVerb: f}]", "extenders[0].urlPrefix", "does not have the form"),
        ("extenders: [{urlPrefix: http://a, prioritizeVerb: p}]", "extenders[0]", "weight must be at least 1"),
        (EXTENDER + ", httpTimeout: 5}]", "extenders[0].httpTimeout", "valid string"),
        (EXTENDER + ", httpTimeout: 5sec}]", "extenders[0]", "one is 5s, 100ms or 1m30s"),
        (EXTENDER + ", enableHttps: true}]", "extenders[0].enableHttps", "did you mean 'enableHTTPS'?"),
        (EXTENDER + ", managedResources: [{name: cpu}]}]", "extenders[0].managedResources[0]", "no extended resource"),
        (EXTENDER + "}, {urlPrefix: http://there/x, filterVerb: f}]", "", "is given twice"),
        (
            EXTENDER
            + ", managedResources: [{name: a.b/c}]}, "
            # the same again, at another place
            + "{urlPrefix: http://b, filterVerb: f, managedResources: [{name: a.b/c}]}]",
            "",
            "a.b/c is managed by two extenders",
        ),
        ("profiles: [{userPlugins: [{name: a}, {name: a}]}]", "profiles[0]", "stands in userPlugins twice"),
        ("profiles: [{userPlugins: [{weight: 1}]}]", "profiles[0].userPlugins[0].name", "must be given"),
    ],
)
def test_what_is_wrong_with_extenders_and_plugins_is_said(text, path, message):
    with pytest.raises(ConfigurationError) as error:
        load_configuration(text)

    assert [problem.path for problem in error.value.problems] == [path]
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("shards: [{name: default}]", "name default is that of the shard which has what no other one names"),
        ("shards: [{name: a, nodes: {}}]", "nodes selects every node"),
        ("shards: [{name: a}, {name: a}]", "2 shards are called a"),
        ("shards: [{name: a, cohorts: [c]}, {name: b, cohorts: [c]}]", "cohort c is named by a and by b"),
        ("shards: [{name: a, clusterQueues: [c, c]}]", "c stands 2 times in shard a"),
        ("shards: [{name: a, clusterQueues: [c]}, {name: b, clusterQueues: [c]}]", "ClusterQueue c is named by a"),
        ("shards: [{name: a}]\nleaderElection: {enabled: false}", "they need leaderElection.enabled"),
        ("shards: [{name: a}]\nthrottles: {}", "throttles count pods of all shards"),
        ("shards: [{name: a}]\nui: {}", "ui works out what one process would decide"),
        ("shards: [{name: A}]", "shards[0].name"),
    ],
)
def test_shards_that_have_something_in_common_are_refused(text: str, told: str):
    with pytest.raises(ConfigurationError) as error:
        load_configuration(text)
    assert told in str(error.value)


def test_a_cohort_and_a_queue_of_one_name_are_two():
    found = load_configuration("shards: [{name: a, cohorts: [c]}, {name: b, clusterQueues: [c]}]")
    assert [one.name for one in found.shards] == ["a", "b"]
