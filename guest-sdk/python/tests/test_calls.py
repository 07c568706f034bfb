"""The calls of a plugin's functions and their results."""

import gc
import json
import logging
import random
import unittest
from datetime import timedelta

from pilothouse import (
    Cache,
    Change,
    Conflict,
    ObjectKey,
    Plugin,
    Reason,
    Request,
    Retry,
    Terminal,
    config,
    events,
    index,
    log,
    metrics,
    queue,
    testing,
    trigger,
)
from pilothouse._guest import exports
from pilothouse.object import _open

KEY = ("default", "web")


def config_map(name="web", data=None, **metadata):
    metadata = {"namespace": "default", "name": name, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {}}


class PluginCase(unittest.TestCase):
    """A plugin whose reconcile is the test's own."""

    def host(self, reconcile=lambda request: None, **plugin_config):
        self.plugin = Plugin("test", "1")
        self.maps = self.plugin.watch("maps", "v1", "ConfigMap", trigger=trigger.ITSELF)
        self.plugin.reconcile("maps")(reconcile)
        return testing.Host(self.plugin, config=plugin_config)


class ReconcileTest(PluginCase):
    def test_the_request_is_converted_to_python_types(self):
        seen = []
        host = self.host(seen.append)
        host.reconcile("maps", KEY, reasons=[Reason.CREATED, Reason.RETRY], attempt=3)
        self.assertEqual(seen, [Request("maps", ObjectKey(*KEY), frozenset({"created", "retry"}), 3)])
        self.assertEqual((str(seen[0].key), seen[0].key.sibling("db")), ("default/web", ("default", "db")))

    def test_none_is_done_and_a_duration_is_a_requeue(self):
        self.assertIsNone(self.host().reconcile("maps", KEY))
        host = self.host(lambda request: timedelta(microseconds=1))
        self.assertEqual(host.reconcile("maps", KEY), timedelta(milliseconds=1), "rounded up, never 0")

    def test_any_other_result_is_reported_as_a_mistake(self):
        with self.assertRaisesRegex(Retry, "returns None or a timedelta, not 5"):
            self.host(lambda request: 5).reconcile("maps", KEY)

    def test_an_exception_is_a_retry_with_its_location_and_a_traceback_in_the_log(self):
        def breaks(request):
            {}["missing"]

        host = self.host(breaks)
        with self.assertRaisesRegex(Retry, r"^KeyError: 'missing' \(.*test_calls.py:\d+ in breaks\)$"):
            host.reconcile("maps", KEY)
        self.assertEqual(host.log[0].message, "Traceback (most recent call last):")
        self.assertIn("in breaks", host.log[1].message, "the SDK's own frames are left out")
        self.assertEqual(host.log[-1].message, "KeyError: 'missing'")

    def test_the_location_is_in_the_plugin_even_when_a_library_raised(self):
        host = self.host(lambda request: int("seven"))
        with self.assertRaisesRegex(Retry, r"ValueError: .*test_calls.py:\d+ in <lambda>\)$"):
            host.reconcile("maps", KEY)
        host = self.host(lambda request: json.loads("{"))
        with self.assertRaisesRegex(Retry, r"JSONDecodeError: .*test_calls.py:\d+ in <lambda>\)$"):
            host.reconcile("maps", KEY)

    def test_retry_and_terminal_have_only_their_text(self):
        for kind in (Retry, Terminal):
            def fails(request, kind=kind):
                raise kind("no image")

            host = self.host(fails)
            with self.assertRaisesRegex(kind, "^no image$"):
                host.reconcile("maps", KEY)
            self.assertEqual(host.log, [])

    def test_an_api_error_has_its_location_and_no_traceback(self):
        def conflicts(request):
            raise Conflict("conflict: changed")

        host = self.host(conflicts)
        with self.assertRaisesRegex(Retry, r"^conflict: changed \(.*in conflicts\)$"):
            host.reconcile("maps", KEY)
        self.assertEqual(host.log, [])

    def test_a_reconcile_without_names_serves_the_remaining_watches(self):
        plugin = Plugin("two", "1")
        plugin.watch("foos", "v1", "ConfigMap", trigger=trigger.ITSELF)
        plugin.watch("bars", "v1", "Secret", trigger=trigger.ITSELF)
        seen = []
        plugin.reconcile("foos")(lambda request: seen.append("foos"))
        plugin.reconcile()(lambda request: seen.append(f"rest {request.watch}"))
        host = testing.Host(plugin)
        host.reconcile("foos", KEY)
        host.reconcile("bars", KEY)
        self.assertEqual(seen, ["foos", "rest bars"])


class HandlesTest(PluginCase):
    def test_a_retained_handle_is_closed_at_the_end_of_the_call(self):
        kept = []
        host = self.host(lambda request: kept.append(self.maps.get(request.key)))
        host.add(config_map())
        host.reconcile("maps", KEY)
        with self.assertRaisesRegex(ValueError, "closed"):
            kept[0].text("/data")
        self.assertEqual(repr(kept[0]), "Object(closed)")

    def test_a_loop_closes_its_handles_as_it_goes(self):
        most = []

        def loops(request):
            gc.disable()
            try:
                for _ in self.maps.list(page_size=2):
                    most.append(len(_open))
            finally:
                gc.enable()

        host = self.host(loops)
        for number in range(20):
            host.add(config_map(f"m{number}"))
        host.reconcile("maps", KEY)
        self.assertEqual(len(most), 20)
        self.assertLessEqual(max(most), 3)

    def test_several_values_are_in_the_order_of_the_pointers(self):
        def reads(request):
            found = self.maps.get(request.key)
            self.assertEqual(found.texts("/data/a", "/data/no", "/kind"), ['say "hi"', None, "ConfigMap"])
            self.assertEqual(found.fields("/data", "/data/no", "/data/a"), [{"a": 'say "hi"'}, None, 'say "hi"'])

        host = self.host(reads)
        host.add(config_map(data={"a": 'say "hi"'}))
        self.assertIsNone(host.reconcile("maps", KEY))

    def test_a_with_block_closes_the_handle(self):
        def reads(request):
            with self.maps.get(request.key) as found:
                self.assertEqual(found.text("/data/a"), "1")
            found.close()
            self.assertEqual(len(_open), 0)

        host = self.host(reads)
        host.add(config_map(data={"a": "1"}))
        host.reconcile("maps", KEY)


class InitializationTest(PluginCase):
    def test_configure_is_called_once_per_instance_before_any_other_function(self):
        seen = []
        host = self.host(lambda request: seen.append(config.get()["mode"]), mode="fast")
        self.plugin.configure(lambda given: seen.append(given))
        instance = testing.Host(self.plugin, config={"mode": "fast"})
        seen.clear()
        instance._guest._is_initialized = False
        instance.reconcile("maps", KEY)
        instance.reconcile("maps", KEY)
        self.assertEqual(seen, [{"mode": "fast"}, "fast", "fast"])
        self.assertEqual(host.config, {"mode": "fast"})

    def test_an_exception_in_configure_refuses_the_load_with_its_text(self):
        plugin = Plugin("strict", "1")

        @plugin.configure
        def configure(given):
            raise Terminal(f"config.image is missing in {given}")

        with self.assertRaises(Exception) as refused:
            testing.Host(plugin)
        self.assertEqual(refused.exception.value, "config.image is missing in {}")

    def test_two_instances_generate_different_random_numbers(self):
        drawn = []
        for _ in range(2):
            host = self.host(lambda request: drawn.append(random.random()))
            host._guest._is_initialized = False
            random.seed(1)
            host.reconcile("maps", KEY)
        self.assertNotEqual(drawn[0], drawn[1])


class ObserveTest(unittest.TestCase):
    def setUp(self):
        self.plugin = Plugin("observer", "1")
        self.plugin.watch("maps", "v1", "ConfigMap", notify=True)

    def test_each_change_has_the_object_before_and_after(self):
        seen = []

        @self.plugin.observe
        def observe(notifications):
            for notification in notifications:
                before = notification.before and notification.before.text("/data/a")
                seen.append((notification.change, notification.key, notification.initial, before, notification.after_field("/data/a", "nothing")))

        one, two = config_map(data={"a": "1"}), config_map(data={"a": "2"})
        testing.Host(self.plugin).observe("maps", (None, one), (one, two), (two, None), initial=True)
        self.assertEqual(
            seen,
            [
                (Change.ADDED, KEY, True, None, "1"),
                (Change.UPDATED, KEY, True, "1", "2"),
                (Change.DELETED, KEY, True, "2", "nothing"),
            ],
        )

    def test_only_retry_and_terminal_keep_the_instance(self):
        errors = iter([Retry("later"), ZeroDivisionError("half done")])

        @self.plugin.observe
        def observe(notifications):
            raise next(errors)

        host = testing.Host(self.plugin)
        with self.assertRaisesRegex(Retry, "later"):
            host.observe("maps", (None, config_map()))
        with self.assertRaises(ZeroDivisionError):
            host.observe("maps", (None, config_map()))


class IndexTest(unittest.TestCase):
    def test_the_values_of_an_index_come_from_the_function(self):
        plugin = Plugin("indexed", "1")
        maps = plugin.watch("maps", "v1", "ConfigMap", trigger=trigger.ITSELF, indexes={"byWord": index.computed()})
        found = []

        @plugin.reconcile("maps")
        def reconcile(request):
            found.append([item.name for item in maps.by_index("byWord", "pear")])
            found.append(maps.index_keys("byWord", "apple"))
            found.append(maps.index_values("byWord"))

        @plugin.index("byWord")
        def words(item):
            yield from (item.text("/data/words") or "").split()

        host = testing.Host(plugin)
        host.add(config_map("a", {"words": "apple pear"}))
        host.add(config_map("b", {"words": "pear"}))
        self.assertEqual(host.index_values("byWord", config_map("c", {"words": "plum fig"})), ["plum", "fig"])
        host.reconcile("maps", KEY)
        self.assertEqual(found, [["a", "b"], [("default", "a")], ["apple", "pear"]])


class EffectsTest(PluginCase):
    def test_queue_events_metrics_and_log_reach_the_host(self):
        def acts(request):
            queue.add("maps", ("default", "db"))
            self.maps.enqueue(("default", "db"), after=timedelta(seconds=2))
            found = self.maps.get(request.key)
            events.normal(found, "Synced", "Sync", "fine")
            events.warning(found.json(), "Odd", "Look", "not fine")
            metrics.counter("synced", labels={"kind": "map"})
            metrics.gauge("level", 2.5)
            log.warn("odd", replicas=3, message_of="somebody")

        host = self.host(acts)
        self.plugin.writes("", "configmaps", "get")
        host = testing.Host(self.plugin)
        host.add(config_map())
        host.reconcile("maps", KEY)
        self.assertEqual(host.queued, [("maps", ("default", "db"), None), ("maps", ("default", "db"), timedelta(seconds=2))])
        self.assertEqual([(event.type, event.reason) for event in host.events], [("normal", "Synced"), ("warning", "Odd")])
        self.assertEqual(host.metrics, [("synced", {"kind": "map"}, 1.0), ("level", {}, 2.5)])
        self.assertEqual(host.log, [("warn", "odd", {"replicas": "3", "message_of": "somebody"})])

    def test_an_event_about_an_unknown_object_is_logged(self):
        host = self.host(lambda request: events.normal(config_map("ghost"), "Seen", "See", "boo"))
        host.reconcile("maps", KEY)
        self.assertEqual(host.events, [])
        self.assertIn("v1 ConfigMap default/ghost is not known to the host", host.log[0].message)

    def test_the_standard_librarys_logging_goes_to_the_log(self):
        logger = logging.Logger("library")
        logger.addHandler(log.Handler())
        host = self.host(lambda request: logger.error("cannot %s", "sync", extra={"name_of": "web"}))
        host.reconcile("maps", KEY)
        self.assertEqual(host.log, [("error", "cannot sync", {"name_of": "web", "logger": "library"})])

    def test_a_call_without_a_host_raises(self):
        with self.assertRaisesRegex(RuntimeError, "cache.get: there is no host outside of a plugin.*testing.Host"):
            Cache("maps").get(KEY)


class ExportedTest(unittest.TestCase):
    def test_the_generated_classes_match_the_exports(self):
        plugin = Plugin("exported", "1")
        plugin.watch("maps", "v1", "ConfigMap", notify=True)
        plugin.observe(lambda notifications: None)
        classes = exports(plugin)
        self.assertEqual(sorted(classes), ["Observe", "Plugin"])
        self.assertTrue(callable(classes["Observe"]().observe))


if __name__ == "__main__":
    unittest.main()
