;; The acceptance plugin as specified by ../README.md, written by hand in the text format of WebAssembly, without any SDK.
;;
;; Layout:
;; - memory:    16 results of the exports · 256 the script's arguments · 512 results of the imports · 640 log fields · 1024 names and texts
;;              8192 the descriptor · 16384 the text being composed · 65536 values that the host passes
;; - a text is (pointer, length); a name below is one byte of length, then the text, so that one number names it
;; - an option<string> at $r is: 0 or 1, pointer at +4, length at +8
;; - a result<object, api-error> at $r is: 0 and the handle at +4, or 1 and the error: its case at +4, its contents from +8
;; A function that receives an object's handle closes it.
(module
  (import "pilothouse:controller/objects@0.1.1" "[method]object.key" (func $object.key (param i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.api-version" (func $object.api-version (param i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.kind" (func $object.kind (param i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.uid" (func $object.uid (param i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.resource-version" (func $object.resource-version (param i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.generation" (func $object.generation (param i32) (result i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.labels" (func $object.labels (param i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.label" (func $object.label (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.annotation" (func $object.annotation (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.deletion-timestamp" (func $object.deletion-timestamp (param i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.controller" (func $object.controller (param i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.field" (func $object.field (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.text" (func $object.text (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.fields" (func $object.fields (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.texts" (func $object.texts (param i32 i32 i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[method]object.json" (func $object.json (param i32 i32)))
  (import "pilothouse:controller/objects@0.1.1" "[resource-drop]object" (func $close (param i32)))
  (import "pilothouse:controller/changes@0.1.1" "[method]batch.before" (func $batch.before (param i32 i32 i32)))
  (import "pilothouse:controller/changes@0.1.1" "[method]batch.after" (func $batch.after (param i32 i32 i32)))
  (import "pilothouse:controller/changes@0.1.1" "[method]batch.after-field" (func $batch.after-field (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/changes@0.1.1" "[resource-drop]batch" (func $close-batch (param i32)))
  (import "pilothouse:controller/cache@0.1.1" "get" (func $cache.get (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/cache@0.1.1" "list" (func $cache.list (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/cache@0.1.1" "list-fields" (func $cache.list-fields (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/cache@0.1.1" "by-index" (func $cache.by-index (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/cache@0.1.1" "index-keys" (func $cache.index-keys (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/cache@0.1.1" "index-values" (func $cache.index-values (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/cache@0.1.1" "has-synced" (func $cache.has-synced (param i32 i32) (result i32)))
  (import "pilothouse:controller/client@0.1.1" "get" (func $client.get (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "list" (func $client.list (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "create" (func $client.create (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "update" (func $client.update (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "patch"
    (func $client.patch (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/client@0.1.1" "delete" (func $client.delete (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/queue@0.1.1" "add" (func $queue.add (param i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/queue@0.1.1" "add-after" (func $queue.add-after (param i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/events@0.1.1" "publish" (func $events.publish (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/log@0.1.1" "log" (func $log (param i32 i32 i32 i32 i32)))
  (import "pilothouse:controller/metrics@0.1.1" "counter" (func $metrics.counter (param i32 i32 i32 i32 f64)))
  (import "pilothouse:controller/metrics@0.1.1" "gauge" (func $metrics.gauge (param i32 i32 i32 i32 f64)))
  (import "pilothouse:controller/metrics@0.1.1" "histogram" (func $metrics.histogram (param i32 i32 i32 i32 f64)))

  (memory (export "memory") 2)
  (global $r i32 (i32.const 512))

  ;; ---- Names and texts ----

  (global $p-op i32 (i32.const 1024)) (data (i32.const 1024) "\08/data/op")
  (global $p-a i32 (i32.const 1040)) (data (i32.const 1040) "\07/data/a")
  (global $p-b i32 (i32.const 1056)) (data (i32.const 1056) "\07/data/b")
  (global $p-c i32 (i32.const 1072)) (data (i32.const 1072) "\07/data/c")
  (global $p-d i32 (i32.const 1088)) (data (i32.const 1088) "\07/data/d")
  (global $p-e i32 (i32.const 1104)) (data (i32.const 1104) "\07/data/e")
  (global $p-f i32 (i32.const 1120)) (data (i32.const 1120) "\07/data/f")
  (global $p-g i32 (i32.const 1136)) (data (i32.const 1136) "\07/data/g")
  (global $p-body i32 (i32.const 1152)) (data (i32.const 1152) "\0a/data/body")
  (global $p-value i32 (i32.const 1168)) (data (i32.const 1168) "\0b/data/value")
  (global $p-words i32 (i32.const 1184)) (data (i32.const 1184) "\0b/data/words")
  (global $p-finalizer i32 (i32.const 1200)) (data (i32.const 1200) "\16/metadata/finalizers/0")
  (global $fail i32 (i32.const 1232)) (data (i32.const 1232) "\08\"fail\":\"")
  (global $scripts i32 (i32.const 1248)) (data (i32.const 1248) "\07scripts")
  (global $items i32 (i32.const 1264)) (data (i32.const 1264) "\05items")
  (global $nonesuch i32 (i32.const 1280)) (data (i32.const 1280) "\08nonesuch")
  (global $v1 i32 (i32.const 1296)) (data (i32.const 1296) "\02v1")
  (global $config-map i32 (i32.const 1312)) (data (i32.const 1312) "\09ConfigMap")
  (global $info i32 (i32.const 1328)) (data (i32.const 1328) "\04info")
  (global $requeue i32 (i32.const 1344)) (data (i32.const 1344) "\07requeue")
  (global $retry i32 (i32.const 1360)) (data (i32.const 1360) "\05retry")
  (global $terminal i32 (i32.const 1376)) (data (i32.const 1376) "\08terminal")
  (global $trap i32 (i32.const 1392)) (data (i32.const 1392) "\04trap")
  (global $loop i32 (i32.const 1408)) (data (i32.const 1408) "\04loop")
  (global $allocate i32 (i32.const 1424)) (data (i32.const 1424) "\08allocate")
  (global $get i32 (i32.const 1440)) (data (i32.const 1440) "\03get")
  (global $json-length i32 (i32.const 1456)) (data (i32.const 1456) "\0bjson-length")
  (global $object i32 (i32.const 1472)) (data (i32.const 1472) "\06object")
  (global $list i32 (i32.const 1488)) (data (i32.const 1488) "\04list")
  (global $list-fields i32 (i32.const 1504)) (data (i32.const 1504) "\0blist-fields")
  (global $by-index i32 (i32.const 1520)) (data (i32.const 1520) "\08by-index")
  (global $index-keys i32 (i32.const 1536)) (data (i32.const 1536) "\0aindex-keys")
  (global $index-values i32 (i32.const 1552)) (data (i32.const 1552) "\0cindex-values")
  (global $has-synced i32 (i32.const 1568)) (data (i32.const 1568) "\0ahas-synced")
  (global $unknown-watch i32 (i32.const 1584)) (data (i32.const 1584) "\0dunknown-watch")
  (global $own-write i32 (i32.const 1600)) (data (i32.const 1600) "\09own-write")
  (global $client-get i32 (i32.const 1616)) (data (i32.const 1616) "\0aclient-get")
  (global $client-list i32 (i32.const 1632)) (data (i32.const 1632) "\0bclient-list")
  (global $create i32 (i32.const 1648)) (data (i32.const 1648) "\06create")
  (global $update i32 (i32.const 1664)) (data (i32.const 1664) "\06update")
  (global $patch i32 (i32.const 1680)) (data (i32.const 1680) "\05patch")
  (global $delete i32 (i32.const 1696)) (data (i32.const 1696) "\06delete")
  (global $denied i32 (i32.const 1712)) (data (i32.const 1712) "\06denied")
  (global $add i32 (i32.const 1728)) (data (i32.const 1728) "\03add")
  (global $add-after i32 (i32.const 1744)) (data (i32.const 1744) "\09add-after")
  (global $event i32 (i32.const 1760)) (data (i32.const 1760) "\05event")
  (global $counter i32 (i32.const 1776)) (data (i32.const 1776) "\07counter")
  (global $gauge i32 (i32.const 1792)) (data (i32.const 1792) "\05gauge")
  (global $histogram i32 (i32.const 1808)) (data (i32.const 1808) "\09histogram")
  (global $log-op i32 (i32.const 1824)) (data (i32.const 1824) "\03log")
  (global $finalizer i32 (i32.const 1840)) (data (i32.const 1840) "\09finalizer")
  (global $no-operation i32 (i32.const 1856)) (data (i32.const 1856) "\0dno operation ")
  (global $watch i32 (i32.const 1872)) (data (i32.const 1872) "\05watch")
  (global $key i32 (i32.const 1888)) (data (i32.const 1888) "\03key")
  (global $change i32 (i32.const 1904)) (data (i32.const 1904) "\06change")
  (global $initial i32 (i32.const 1920)) (data (i32.const 1920) "\07initial")
  (global $unknown i32 (i32.const 1936)) (data (i32.const 1936) "\07unknown")
  (global $before i32 (i32.const 1952)) (data (i32.const 1952) "\06before")
  (global $after i32 (i32.const 1968)) (data (i32.const 1968) "\05after")
  (global $observed i32 (i32.const 1984)) (data (i32.const 1984) "\08observed")
  (global $f-op i32 (i32.const 2000)) (data (i32.const 2000) "\02op")
  (global $value i32 (i32.const 2016)) (data (i32.const 2016) "\05value")
  (global $f-result i32 (i32.const 2032)) (data (i32.const 2032) "\06result")
  (global $c-added i32 (i32.const 2048)) (data (i32.const 2048) "\05added")
  (global $c-updated i32 (i32.const 2064)) (data (i32.const 2064) "\07updated")
  (global $c-deleted i32 (i32.const 2080)) (data (i32.const 2080) "\07deleted")
  (global $c-resync i32 (i32.const 2096)) (data (i32.const 2096) "\06resync")
  (global $r-created i32 (i32.const 2112)) (data (i32.const 2112) "\07created")
  (global $r-other i32 (i32.const 2128)) (data (i32.const 2128) "\05other")
  (global $r-startup i32 (i32.const 2144)) (data (i32.const 2144) "\07startup")
  (global $true i32 (i32.const 2160)) (data (i32.const 2160) "\04true")
  (global $false i32 (i32.const 2176)) (data (i32.const 2176) "\05false")
  (global $dash i32 (i32.const 2192)) (data (i32.const 2192) "\01-")
  (global $empty i32 (i32.const 2208)) (data (i32.const 2208) "\00")
  (global $bar i32 (i32.const 2224)) (data (i32.const 2224) "\03 | ")
  (global $none i32 (i32.const 2240)) (data (i32.const 2240) "\04none")
  (global $absent i32 (i32.const 2256)) (data (i32.const 2256) "\06absent")
  (global $set i32 (i32.const 2272)) (data (i32.const 2272) "\03set")
  (global $tier i32 (i32.const 2288)) (data (i32.const 2288) "\04tier")
  (global $note i32 (i32.const 2304)) (data (i32.const 2304) "\04note")
  (global $warning i32 (i32.const 2320)) (data (i32.const 2320) "\07warning")
  (global $warn i32 (i32.const 2336)) (data (i32.const 2336) "\04warn")
  (global $error i32 (i32.const 2352)) (data (i32.const 2352) "\05error")
  (global $merge i32 (i32.const 2368)) (data (i32.const 2368) "\05merge")
  (global $strategic i32 (i32.const 2384)) (data (i32.const 2384) "\09strategic")
  (global $apply i32 (i32.const 2400)) (data (i32.const 2400) "\05apply")
  (global $apply-force i32 (i32.const 2416)) (data (i32.const 2416) "\0bapply-force")
  (global $foreground i32 (i32.const 2432)) (data (i32.const 2432) "\0aforeground")
  (global $orphan i32 (i32.const 2448)) (data (i32.const 2448) "\06orphan")
  (global $trap-request i32 (i32.const 2464)) (data (i32.const 2464) "\0ctold to trap")
  (global $t-attempt i32 (i32.const 2480)) (data (i32.const 2480) "\09 attempt=")
  (global $t-reasons i32 (i32.const 2496)) (data (i32.const 2496) "\09 reasons=")
  (global $t-attempt-of i32 (i32.const 2512)) (data (i32.const 2512) "\08attempt ")
  (global $t-of i32 (i32.const 2528)) (data (i32.const 2528) "\04 of ")
  (global $t-attempt-is i32 (i32.const 2544)) (data (i32.const 2544) "\08attempt=")
  (global $t-patch-failed i32 (i32.const 2560)) (data (i32.const 2560) "\2fthe finalizers could not be patched: api-error ")
  (global $requeued i32 (i32.const 2608)) (data (i32.const 2608) "\08requeued")
  (global $recovered i32 (i32.const 2624)) (data (i32.const 2624) "\09recovered")
  (global $published i32 (i32.const 2640)) (data (i32.const 2640) "\09published")
  (global $recorded i32 (i32.const 2656)) (data (i32.const 2656) "\08recorded")
  (global $logged i32 (i32.const 2672)) (data (i32.const 2672) "\06logged")
  (global $held i32 (i32.const 2688)) (data (i32.const 2688) "\04held")
  (global $cleaned i32 (i32.const 2704)) (data (i32.const 2704) "\07cleaned")
  (global $l-key i32 (i32.const 2720)) (data (i32.const 2720) "\04key=")
  (global $l-api-version i32 (i32.const 2736)) (data (i32.const 2736) "\0d\napi-version=")
  (global $l-kind i32 (i32.const 2752)) (data (i32.const 2752) "\06\nkind=")
  (global $l-uid i32 (i32.const 2768)) (data (i32.const 2768) "\05\nuid=")
  (global $l-resource-version i32 (i32.const 2784)) (data (i32.const 2784) "\12\nresource-version=")
  (global $l-generation i32 (i32.const 2816)) (data (i32.const 2816) "\0c\ngeneration=")
  (global $l-labels i32 (i32.const 2832)) (data (i32.const 2832) "\08\nlabels=")
  (global $l-label i32 (i32.const 2848)) (data (i32.const 2848) "\07\nlabel=")
  (global $l-annotation i32 (i32.const 2864)) (data (i32.const 2864) "\0c\nannotation=")
  (global $l-deletion i32 (i32.const 2880)) (data (i32.const 2880) "\14\ndeletion-timestamp=")
  (global $l-controller i32 (i32.const 2912)) (data (i32.const 2912) "\0c\ncontroller=")
  (global $l-field i32 (i32.const 2928)) (data (i32.const 2928) "\07\nfield=")
  (global $l-text i32 (i32.const 2944)) (data (i32.const 2944) "\06\ntext=")
  (global $e-not-found i32 (i32.const 2960)) (data (i32.const 2960) "\09not-found")
  (global $e-already-exists i32 (i32.const 2976)) (data (i32.const 2976) "\0ealready-exists")
  (global $e-conflict i32 (i32.const 2992)) (data (i32.const 2992) "\08conflict")
  (global $e-invalid i32 (i32.const 3008)) (data (i32.const 3008) "\08invalid:")
  (global $e-forbidden i32 (i32.const 3024)) (data (i32.const 3024) "\09forbidden")
  (global $e-denied i32 (i32.const 3040)) (data (i32.const 3040) "\07denied:")
  (global $e-too-many i32 (i32.const 3056)) (data (i32.const 3056) "\12too-many-requests:")
  (global $e-unavailable i32 (i32.const 3088)) (data (i32.const 3088) "\0bunavailable")
  (global $e-other i32 (i32.const 3104)) (data (i32.const 3104) "\06other:")
  (global $json-escape i32 (i32.const 3120)) (data (i32.const 3120) "\04\\u00")
  (global $j-value i32 (i32.const 3136)) (data (i32.const 3136) "\11{\"data\":{\"value\":")
  (global $j-end i32 (i32.const 3168)) (data (i32.const 3168) "\02}}")
  (global $j-secret i32 (i32.const 3184)) (data (i32.const 3184) "\4c{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"denied\",\"namespace\":\"")
  (global $j-secret-end i32 (i32.const 3264)) (data (i32.const 3264) "\03\"}}")
  (global $j-finalizers i32 (i32.const 3280)) (data (i32.const 3280) "\41{\"metadata\":{\"finalizers\":[\"acceptance.pilothouse.dev/cleanup\"]}}")
  (global $j-no-finalizers i32 (i32.const 3360)) (data (i32.const 3360) "\1e{\"metadata\":{\"finalizers\":[]}}")
  (global $p-nothing i32 (i32.const 3392)) (data (i32.const 3392) "\0d/data/nothing")
  (global $p-kind i32 (i32.const 3408)) (data (i32.const 3408) "\05/kind")
  ;; A list of three: $p-value, $p-nothing and $p-kind, where each one's text is, and how long.
  (global $p-several i32 (i32.const 3424))
  (data (i32.const 3424) "\91\04\00\00\0b\00\00\00\41\0d\00\00\0d\00\00\00\51\0d\00\00\05\00\00\00")
  (global $l-fields i32 (i32.const 3456)) (data (i32.const 3456) "\08\nfields=")
  (global $l-texts i32 (i32.const 3472)) (data (i32.const 3472) "\07\ntexts=")
  (global $descriptor i32 (i32.const 8192))
  (global $descriptor-length i32 (i32.const 842))
  (data (i32.const 8192) "{\"apiVersion\":\"pilothouse.dev/v1alpha1\",\"kind\":\"Plugin\",\"name\":\"acceptance-wat\",\"version\":\"0.1.0\",\"watches\":[{\"name\":\"scripts\",\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"labelSelector\":\"test=acceptance\",\"trigger\":\"self\"},{\"name\":\"items\",\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"labelSelector\":\"test=acceptance-item\",\"notify\":true,\"indexes\":[{\"name\":\"byGroup\",\"field\":\"{.data.group}\"},{\"name\":\"byWord\",\"computed\":true}]},{\"name\":\"namespaces\",\"apiVersion\":\"v1\",\"kind\":\"Namespace\"},{\"name\":\"deployments\",\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"labelSelector\":\"test=acceptance-item\"}],\"writes\":[{\"apiGroups\":[\"\"],\"resources\":[\"configmaps\"],\"verbs\":[\"get\",\"list\",\"create\",\"update\",\"patch\",\"delete\"]},{\"apiGroups\":[\"apps\"],\"resources\":[\"deployments\",\"deployments/status\",\"deployments/scale\"],\"verbs\":[\"get\",\"list\",\"create\",\"update\",\"patch\",\"delete\"]}]}")

  ;; ---- Memory for values that the host passes ----

  ;; A bump allocator that is reset when a call ends.
  (global $next (mut i32) (i32.const 65536))
  (func $allocate (param $alignment i32) (param $size i32) (result i32)
    (local $address i32)
    (local $missing i32)
    (local.set $address
      (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $alignment) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $alignment))))
    (global.set $next (i32.add (local.get $address) (local.get $size)))
    (local.set $missing (i32.sub (global.get $next) (i32.mul (memory.size) (i32.const 65536))))
    (if (i32.gt_s (local.get $missing) (i32.const 0))
      (then
        ;; -1 means that the plugin's memory limit is reached.
        (if (i32.eq (i32.const -1)
              (memory.grow (i32.add (i32.div_u (local.get $missing) (i32.const 65536)) (i32.const 1))))
          (then unreachable))))
    (local.get $address))

  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $alignment i32) (param $size i32) (result i32)
    (local $new i32)
    (local.set $new (call $allocate (local.get $alignment) (local.get $size)))
    (memory.copy (local.get $new) (local.get $old) (local.get $old-size))
    (local.get $new))

  (func $end-call
    (global.set $next (i32.const 65536)))

  ;; ---- Texts ----

  (func $at (param $name i32) (result i32) (i32.add (local.get $name) (i32.const 1)))
  (func $of (param $name i32) (result i32) (i32.load8_u (local.get $name)))

  ;; Returns whether a text equals the text of a name.
  (func $is (param $text i32) (param $length i32) (param $name i32) (result i32)
    (local $i i32)
    (if (i32.ne (local.get $length) (call $of (local.get $name))) (then (return (i32.const 0))))
    (loop $more
      (if (i32.eq (local.get $i) (local.get $length)) (then (return (i32.const 1))))
      (if (i32.ne
            (i32.load8_u (i32.add (local.get $text) (local.get $i)))
            (i32.load8_u (i32.add (call $at (local.get $name)) (local.get $i))))
        (then (return (i32.const 0))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $more))
    unreachable)

  ;; The text being composed: 16384 … $end.
  (global $end (mut i32) (i32.const 16384))
  (func $begin (global.set $end (i32.const 16384)))
  (func $composed (result i32) (i32.sub (global.get $end) (i32.const 16384)))
  (func $put-byte (param $byte i32)
    (i32.store8 (global.get $end) (local.get $byte))
    (global.set $end (i32.add (global.get $end) (i32.const 1))))
  (func $put (param $text i32) (param $length i32)
    ;; Must not overwrite values that the host passed.
    (if (i32.gt_u (i32.add (global.get $end) (local.get $length)) (i32.const 65536)) (then unreachable))
    (memory.copy (global.get $end) (local.get $text) (local.get $length))
    (global.set $end (i32.add (global.get $end) (local.get $length))))
  (func $say (param $name i32)
    (call $put (call $at (local.get $name)) (call $of (local.get $name))))
  ;; The text whose pointer and length are at an address.
  (func $put-at (param $address i32)
    (call $put (i32.load (local.get $address)) (i32.load offset=4 (local.get $address))))
  (func $put-number (param $number i32)
    (if (i32.ge_u (local.get $number) (i32.const 10))
      (then (call $put-number (i32.div_u (local.get $number) (i32.const 10)))))
    (call $put-byte (i32.add (i32.const 48) (i32.rem_u (local.get $number) (i32.const 10)))))
  ;; A key, four numbers at an address: "namespace/name", or "name".
  (func $put-key (param $key i32)
    (if (i32.load offset=4 (local.get $key))
      (then (call $put-at (local.get $key)) (call $put-byte (i32.const 47))))
    (call $put-at (i32.add (local.get $key) (i32.const 8))))
  ;; As a JSON string.
  (func $put-json (param $text i32) (param $length i32)
    (local $byte i32)
    (call $put-byte (i32.const 34))
    (block $all
      (loop $more
        (br_if $all (i32.eqz (local.get $length)))
        (local.set $byte (i32.load8_u (local.get $text)))
        (if (i32.lt_u (local.get $byte) (i32.const 32))
          (then
            (call $say (global.get $json-escape))
            (call $put-byte (i32.add (i32.const 48) (i32.shr_u (local.get $byte) (i32.const 4))))
            (local.set $byte (i32.and (local.get $byte) (i32.const 15)))
            (call $put-byte
              (i32.add (local.get $byte) (select (i32.const 48) (i32.const 87) (i32.lt_u (local.get $byte) (i32.const 10))))))
          (else
            (if (i32.or (i32.eq (local.get $byte) (i32.const 34)) (i32.eq (local.get $byte) (i32.const 92)))
              (then (call $put-byte (i32.const 92))))
            (call $put-byte (local.get $byte))))
        (local.set $text (i32.add (local.get $text) (i32.const 1)))
        (local.set $length (i32.sub (local.get $length) (i32.const 1)))
        (br $more)))
    (call $put-byte (i32.const 34)))
  ;; The option<string> at $r, or a name if it is none.
  (func $put-option (param $none i32)
    (if (i32.load8_u (global.get $r))
      (then (call $put-at (i32.add (global.get $r) (i32.const 4))))
      (else (call $say (local.get $none)))))

  (func $integer (param $text i32) (param $length i32) (result i32)
    (local $value i32)
    (block $all
      (loop $more
        (br_if $all (i32.eqz (local.get $length)))
        (local.set $value
          (i32.add (i32.mul (local.get $value) (i32.const 10)) (i32.sub (i32.load8_u (local.get $text)) (i32.const 48))))
        (local.set $text (i32.add (local.get $text) (i32.const 1)))
        (local.set $length (i32.sub (local.get $length) (i32.const 1)))
        (br $more)))
    (local.get $value))
  ;; "-2.5"
  (func $decimal (param $text i32) (param $length i32) (result f64)
    (local $value f64)
    (local $scale f64)
    (local $sign f64)
    (local $byte i32)
    (local.set $scale (f64.const 0))
    (local.set $sign (f64.const 1))
    (block $all
      (loop $more
        (br_if $all (i32.eqz (local.get $length)))
        (local.set $byte (i32.load8_u (local.get $text)))
        (if (i32.eq (local.get $byte) (i32.const 45))
          (then (local.set $sign (f64.const -1)))
          (else
            (if (i32.eq (local.get $byte) (i32.const 46))
              (then (local.set $scale (f64.const 1)))
              (else
                (local.set $value
                  (f64.add
                    (f64.mul (local.get $value) (f64.const 10))
                    (f64.convert_i32_u (i32.sub (local.get $byte) (i32.const 48)))))
                (local.set $scale (f64.mul (local.get $scale) (f64.const 10)))))))
        (local.set $text (i32.add (local.get $text) (i32.const 1)))
        (local.set $length (i32.sub (local.get $length) (i32.const 1)))
        (br $more)))
    (f64.mul
      (local.get $sign)
      (select (f64.div (local.get $value) (local.get $scale)) (local.get $value) (f64.gt (local.get $scale) (f64.const 0)))))

  ;; ---- The log ----

  (global $fields (mut i32) (i32.const 0))
  ;; Adds a field to the next log line: at 640, 16 bytes each.
  (func $field (param $name i32) (param $value i32) (param $length i32)
    (local $address i32)
    (local.set $address (i32.add (i32.const 640) (i32.mul (global.get $fields) (i32.const 16))))
    (i32.store (local.get $address) (call $at (local.get $name)))
    (i32.store offset=4 (local.get $address) (call $of (local.get $name)))
    (i32.store offset=8 (local.get $address) (local.get $value))
    (i32.store offset=12 (local.get $address) (local.get $length))
    (global.set $fields (i32.add (global.get $fields) (i32.const 1))))
  (func $log-info (param $message i32)
    (call $log (i32.const 1) (call $at (local.get $message)) (call $of (local.get $message)) (i32.const 640) (global.get $fields))
    (global.set $fields (i32.const 0)))
  ;; Logs a text as an error and traps.
  (func $panic (param $text i32) (param $length i32)
    (call $log (i32.const 3) (local.get $text) (local.get $length) (i32.const 0) (i32.const 0))
    unreachable)

  ;; ---- describe ----

  ;; describe(config: string) -> result<string, string>: at 16 whether it failed, then pointer and length of the text.
  (func (export "pilothouse:controller/plugin@0.1.1#describe") (param $config i32) (param $length i32) (result i32)
    (local $start i32)
    (i32.store (i32.const 16) (i32.const 0))
    (i32.store (i32.const 20) (global.get $descriptor))
    (i32.store (i32.const 24) (global.get $descriptor-length))
    ;; Parses only {"fail":"TEXT"} with a text without escapes.
    (block $found
      (loop $search
        (if (i32.lt_u (local.get $length) (call $of (global.get $fail))) (then (call $end-call) (return (i32.const 16))))
        (br_if $found (call $is (local.get $config) (call $of (global.get $fail)) (global.get $fail)))
        (local.set $config (i32.add (local.get $config) (i32.const 1)))
        (local.set $length (i32.sub (local.get $length) (i32.const 1)))
        (br $search)))
    (local.set $start (i32.add (local.get $config) (call $of (global.get $fail))))
    (local.set $config (local.get $start))
    (block $quote
      (loop $search
        (br_if $quote (i32.eq (i32.load8_u (local.get $config)) (i32.const 34)))
        (local.set $config (i32.add (local.get $config) (i32.const 1)))
        (br $search)))
    (i32.store (i32.const 16) (i32.const 1))
    (i32.store (i32.const 20) (local.get $start))
    (i32.store (i32.const 24) (i32.sub (local.get $config) (local.get $start)))
    (call $end-call)
    (i32.const 16))

  ;; ---- index ----

  ;; values(index: string, object: object) -> list<string>
  (func (export "pilothouse:controller/index@0.1.1#values") (param $index i32) (param $index-length i32) (param $object i32) (result i32)
    (local $text i32)
    (local $rest i32)
    (local $length i32)
    (local $list i32)
    (local $count i32)
    (call $text-of (local.get $object) (global.get $p-words))
    (call $close (local.get $object))
    (if (i32.load8_u (global.get $r))
      (then
        (local.set $text (i32.load offset=4 (global.get $r)))
        (local.set $rest (i32.load offset=8 (global.get $r)))))
    ;; At most every second byte starts a word, and a word takes 8 bytes in the list.
    (local.set $list (call $allocate (i32.const 4) (i32.mul (i32.add (local.get $rest) (i32.const 2)) (i32.const 4))))
    (block $all
      (loop $word
        (br_if $all (i32.eqz (local.get $rest)))
        (local.set $length (i32.const 0))
        (block $blank
          (loop $letter
            (br_if $blank (i32.eq (local.get $length) (local.get $rest)))
            (br_if $blank (i32.eq (i32.load8_u (i32.add (local.get $text) (local.get $length))) (i32.const 32)))
            (local.set $length (i32.add (local.get $length) (i32.const 1)))
            (br $letter)))
        (if (call $is (local.get $text) (local.get $length) (global.get $trap))
          (then (call $panic (call $at (global.get $trap-request)) (call $of (global.get $trap-request)))))
        (if (local.get $length)
          (then
            (i32.store (i32.add (local.get $list) (i32.mul (local.get $count) (i32.const 8))) (local.get $text))
            (i32.store offset=4 (i32.add (local.get $list) (i32.mul (local.get $count) (i32.const 8))) (local.get $length))
            (local.set $count (i32.add (local.get $count) (i32.const 1)))))
        ;; The word and the space after it.
        (if (i32.lt_u (local.get $length) (local.get $rest))
          (then (local.set $length (i32.add (local.get $length) (i32.const 1)))))
        (local.set $text (i32.add (local.get $text) (local.get $length)))
        (local.set $rest (i32.sub (local.get $rest) (local.get $length)))
        (br $word)))
    (i32.store (i32.const 48) (local.get $list))
    (i32.store (i32.const 52) (local.get $count))
    (call $end-call)
    (i32.const 48))

  ;; ---- observe ----

  ;; observe(notifications, batch) -> result<_, failure>
  ;; A notification takes 32 bytes: watch (8), change (4), key (16), initial, final-state-unknown.
  (func (export "pilothouse:controller/observe@0.1.1#observe") (param $notification i32) (param $count i32) (param $batch i32) (result i32)
    (local $i i32)
    (block $all
      (loop $more
        (br_if $all (i32.eq (local.get $i) (local.get $count)))
        (call $observe-one (local.get $notification) (local.get $batch) (local.get $i))
        (local.set $notification (i32.add (local.get $notification) (i32.const 32)))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $more)))
    (call $close-batch (local.get $batch))
    (call $end-call)
    (i32.store (i32.const 32) (i32.const 0))
    (i32.const 32))

  (func $observe-one (param $notification i32) (param $batch i32) (param $position i32)
    (local $change i32)
    (call $batch.after (local.get $batch) (local.get $position) (global.get $r))
    (call $text-of-option (global.get $p-value))
    (if (i32.load8_u (global.get $r))
      (then
        (if (call $is (i32.load offset=4 (global.get $r)) (i32.load offset=8 (global.get $r)) (global.get $trap))
          (then (call $panic (call $at (global.get $trap-request)) (call $of (global.get $trap-request)))))))
    (call $field (global.get $watch) (i32.load (local.get $notification)) (i32.load offset=4 (local.get $notification)))
    (call $begin)
    (call $put-key (i32.add (local.get $notification) (i32.const 12)))
    (call $field (global.get $key) (i32.const 16384) (call $composed))
    (local.set $change (call $change-name (i32.load8_u offset=8 (local.get $notification))))
    (call $field (global.get $change) (call $at (local.get $change)) (call $of (local.get $change)))
    (call $bool-field (global.get $initial) (i32.load8_u offset=28 (local.get $notification)))
    (call $bool-field (global.get $unknown) (i32.load8_u offset=29 (local.get $notification)))
    (call $batch.before (local.get $batch) (local.get $position) (global.get $r))
    (call $text-of-option (global.get $p-value))
    (call $option-field (global.get $before))
    (call $batch.after-field (local.get $batch) (local.get $position)
      (call $at (global.get $p-value)) (call $of (global.get $p-value)) (global.get $r))
    (call $option-field (global.get $after))
    (call $log-info (global.get $observed)))

  (func $change-name (param $change i32) (result i32)
    (if (i32.eq (local.get $change) (i32.const 0)) (then (return (global.get $c-added))))
    (if (i32.eq (local.get $change) (i32.const 1)) (then (return (global.get $c-updated))))
    (select (global.get $c-deleted) (global.get $c-resync) (i32.eq (local.get $change) (i32.const 2))))
  (func $bool-field (param $name i32) (param $value i32)
    (local $text i32)
    (local.set $text (select (global.get $true) (global.get $false) (local.get $value)))
    (call $field (local.get $name) (call $at (local.get $text)) (call $of (local.get $text))))
  ;; The option<string> at $r, "-" for none.
  (func $option-field (param $name i32)
    (if (i32.load8_u (global.get $r))
      (then (call $field (local.get $name) (i32.load offset=4 (global.get $r)) (i32.load offset=8 (global.get $r))))
      (else (call $field (local.get $name) (call $at (global.get $dash)) (call $of (global.get $dash))))))

  ;; ---- Objects ----

  ;; object.text at a pointer, to $r.
  (func $text-of (param $object i32) (param $pointer i32)
    (call $object.text (local.get $object) (call $at (local.get $pointer)) (call $of (local.get $pointer)) (global.get $r)))
  ;; The same for an option<object> at $r, which it closes; none for none.
  (func $text-of-option (param $pointer i32)
    (local $object i32)
    (if (i32.load8_u (global.get $r))
      (then
        (local.set $object (i32.load offset=4 (global.get $r)))
        (call $text-of (local.get $object) (local.get $pointer))
        (call $close (local.get $object)))))
  ;; Closes a list of objects and appends their keys.
  (func $put-keys-of (param $list i32) (param $count i32)
    (local $first i32)
    (local.set $first (local.get $list))
    (block $all
      (loop $more
        (br_if $all (i32.eqz (local.get $count)))
        (if (i32.ne (local.get $list) (local.get $first)) (then (call $put-byte (i32.const 32))))
        (call $object.key (i32.load (local.get $list)) (i32.const 576))
        (call $put-key (i32.const 576))
        (call $close (i32.load (local.get $list)))
        (local.set $list (i32.add (local.get $list) (i32.const 4)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $more))))

  ;; ---- reconcile ----

  ;; The request.
  (global $namespace (mut i32) (i32.const 0))
  (global $namespace-length (mut i32) (i32.const 0))
  (global $attempt (mut i32) (i32.const 0))
  (global $reasons (mut i32) (i32.const 0))
  (global $reasons-length (mut i32) (i32.const 0))
  (global $script (mut i32) (i32.const 0))

  ;; The script's values, pointer and length, 8 bytes each from 256: op, a … g, body.
  (func $op (result i32) (i32.load (i32.const 256)))
  (func $op# (result i32) (i32.load (i32.const 260)))
  (func $a (result i32) (i32.load (i32.const 264)))
  (func $a# (result i32) (i32.load (i32.const 268)))
  (func $b (result i32) (i32.load (i32.const 272)))
  (func $b# (result i32) (i32.load (i32.const 276)))
  (func $c (result i32) (i32.load (i32.const 280)))
  (func $c# (result i32) (i32.load (i32.const 284)))
  (func $d (result i32) (i32.load (i32.const 288)))
  (func $d# (result i32) (i32.load (i32.const 292)))
  (func $e (result i32) (i32.load (i32.const 296)))
  (func $e# (result i32) (i32.load (i32.const 300)))
  (func $f (result i32) (i32.load (i32.const 304)))
  (func $f# (result i32) (i32.load (i32.const 308)))
  (func $g (result i32) (i32.load (i32.const 312)))
  (func $g# (result i32) (i32.load (i32.const 316)))
  (func $body (result i32) (i32.load (i32.const 320)))
  (func $body# (result i32) (i32.load (i32.const 324)))
  (func $read-value (param $pointer i32) (param $address i32)
    (call $text-of (global.get $script) (local.get $pointer))
    (i32.store (local.get $address) (i32.load offset=4 (global.get $r)))
    (i32.store offset=4 (local.get $address)
      (select (i32.load offset=8 (global.get $r)) (i32.const 0) (i32.load8_u (global.get $r)))))
  (func $read-script
    (call $read-value (global.get $p-op) (i32.const 256))
    (call $read-value (global.get $p-a) (i32.const 264))
    (call $read-value (global.get $p-b) (i32.const 272))
    (call $read-value (global.get $p-c) (i32.const 280))
    (call $read-value (global.get $p-d) (i32.const 288))
    (call $read-value (global.get $p-e) (i32.const 296))
    (call $read-value (global.get $p-f) (i32.const 304))
    (call $read-value (global.get $p-g) (i32.const 312))
    (call $read-value (global.get $p-body) (i32.const 320)))

  ;; Writes the outcome to 16: done; requeue after $a; or retry or terminal with the composed text.
  (func $done
    (i32.store (i32.const 16) (i32.const 0))
    (i32.store (i32.const 20) (i32.const 0)))
  (func $fail-with (param $case i32)
    (i32.store (i32.const 16) (i32.const 1))
    (i32.store (i32.const 20) (local.get $case))
    (i32.store (i32.const 24) (i32.const 16384))
    (i32.store (i32.const 28) (call $composed)))

  ;; Logs the composed text as the operation's result.
  (func $result
    (call $field (global.get $f-op) (call $op) (call $op#))
    (call $field (global.get $value) (i32.const 16384) (call $composed))
    (call $log-info (global.get $f-result)))
  (func $result-is (param $name i32)
    (call $begin)
    (call $say (local.get $name))
    (call $result))

  ;; reconcile(request) -> result<outcome, failure>
  (func (export "pilothouse:controller/reconcile@0.1.1#reconcile")
    (param $watch i32) (param $watch# i32) (param $ns i32) (param $ns# i32) (param $name i32) (param $name# i32)
    (param $reason i32) (param $reason# i32) (param $attempts i32) (param $extra i32) (param $extra# i32)
    (result i32)
    (global.set $namespace (local.get $ns))
    (global.set $namespace-length (local.get $ns#))
    (global.set $attempt (local.get $attempts))
    (global.set $reasons (local.get $reason))
    (global.set $reasons-length (local.get $reason#))
    (call $done)
    (call $begin)
    (call $cache.get (call $at (global.get $scripts)) (call $of (global.get $scripts))
      (local.get $ns) (local.get $ns#) (local.get $name) (local.get $name#) (global.get $r))
    (if (i32.load8_u (global.get $r))
      (then
        (global.set $script (i32.load offset=4 (global.get $r)))
        (call $read-script)
        (if (call $op-is (global.get $info))
          (then (call $op-info (local.get $watch) (local.get $watch#) (local.get $name) (local.get $name#)))
          (else (call $dispatch)))
        (call $close (global.get $script))))
    (call $end-call)
    (i32.const 16))

  (func $op-is (param $name i32) (result i32) (call $is (call $op) (call $op#) (local.get $name)))

  (func $dispatch
    (if (call $op-is (global.get $requeue)) (then (call $op-requeue) (return)))
    (if (call $op-is (global.get $retry)) (then (call $op-retry) (return)))
    (if (call $op-is (global.get $terminal)) (then (call $put (call $a) (call $a#)) (call $fail-with (i32.const 1)) (return)))
    (if (call $op-is (global.get $trap)) (then (call $op-trap) (return)))
    (if (call $op-is (global.get $loop)) (then (call $op-loop) (return)))
    (if (call $op-is (global.get $allocate)) (then (call $op-allocate) (return)))
    (if (call $op-is (global.get $get)) (then (call $op-get) (return)))
    (if (call $op-is (global.get $json-length)) (then (call $op-json-length) (return)))
    (if (call $op-is (global.get $object)) (then (call $op-object) (return)))
    (if (call $op-is (global.get $list)) (then (call $op-list) (return)))
    (if (call $op-is (global.get $list-fields)) (then (call $op-list-fields) (return)))
    (if (call $op-is (global.get $by-index)) (then (call $op-by-index) (return)))
    (if (call $op-is (global.get $index-keys)) (then (call $op-index-keys) (return)))
    (if (call $op-is (global.get $index-values)) (then (call $op-index-values) (return)))
    (if (call $op-is (global.get $has-synced)) (then (call $op-has-synced) (return)))
    (if (call $op-is (global.get $unknown-watch)) (then (call $op-unknown-watch) (return)))
    (if (call $op-is (global.get $own-write)) (then (call $op-own-write) (return)))
    (if (call $op-is (global.get $client-get)) (then (call $op-client-get) (return)))
    (if (call $op-is (global.get $client-list)) (then (call $op-client-list) (return)))
    (if (call $op-is (global.get $create)) (then (call $op-create) (return)))
    (if (call $op-is (global.get $update)) (then (call $op-update) (return)))
    (if (call $op-is (global.get $patch)) (then (call $op-patch) (return)))
    (if (call $op-is (global.get $delete)) (then (call $op-delete) (return)))
    (if (call $op-is (global.get $denied)) (then (call $op-denied) (return)))
    (if (call $op-is (global.get $add)) (then (call $op-add) (return)))
    (if (call $op-is (global.get $add-after)) (then (call $op-add-after) (return)))
    (if (call $op-is (global.get $event)) (then (call $op-event) (return)))
    (if (call $op-is (global.get $counter)) (then (call $op-metric (i32.const 0)) (return)))
    (if (call $op-is (global.get $gauge)) (then (call $op-metric (i32.const 1)) (return)))
    (if (call $op-is (global.get $histogram)) (then (call $op-metric (i32.const 2)) (return)))
    (if (call $op-is (global.get $log-op)) (then (call $op-log) (return)))
    (if (call $op-is (global.get $finalizer)) (then (call $op-finalizer) (return)))
    (call $say (global.get $no-operation))
    (call $put (call $op) (call $op#))
    (call $fail-with (i32.const 1)))

  ;; ---- Operations: the request and failures ----

  (func $has-reason (param $reason i32) (result i32)
    (local $i i32)
    (block $all
      (loop $more
        (br_if $all (i32.eq (local.get $i) (global.get $reasons-length)))
        (if (i32.eq (i32.load8_u (i32.add (global.get $reasons) (local.get $i))) (local.get $reason)) (then (return (i32.const 1))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $more)))
    (i32.const 0))
  ;; Appends the reason if the request has it. Returns whether any reason was appended so far.
  (func $put-reason (param $before i32) (param $reason i32) (param $name i32) (result i32)
    (if (i32.eqz (call $has-reason (local.get $reason))) (then (return (local.get $before))))
    (if (local.get $before) (then (call $put-byte (i32.const 44))))
    (call $say (local.get $name))
    (i32.const 1))

  (func $op-info (param $watch i32) (param $watch# i32) (param $name i32) (param $name# i32)
    (local $said i32)
    (call $put (local.get $watch) (local.get $watch#))
    (call $put-byte (i32.const 32))
    (call $put (global.get $namespace) (global.get $namespace-length))
    (call $put-byte (i32.const 47))
    (call $put (local.get $name) (local.get $name#))
    (call $say (global.get $t-attempt))
    (call $put-number (global.get $attempt))
    (call $say (global.get $t-reasons))
    ;; Sorted by name.
    (local.set $said (call $put-reason (i32.const 0) (i32.const 0) (global.get $r-created)))
    (local.set $said (call $put-reason (local.get $said) (i32.const 2) (global.get $c-deleted)))
    (local.set $said (call $put-reason (local.get $said) (i32.const 7) (global.get $r-other)))
    (local.set $said (call $put-reason (local.get $said) (i32.const 4) (global.get $requeue)))
    (local.set $said (call $put-reason (local.get $said) (i32.const 3) (global.get $c-resync)))
    (local.set $said (call $put-reason (local.get $said) (i32.const 5) (global.get $retry)))
    (local.set $said (call $put-reason (local.get $said) (i32.const 6) (global.get $r-startup)))
    (drop (call $put-reason (local.get $said) (i32.const 1) (global.get $c-updated)))
    (call $result))

  (func $op-requeue
    (if (call $has-reason (i32.const 4)) (then (call $result-is (global.get $requeued)) (return)))
    (i32.store (i32.const 20) (i32.const 1))
    (i32.store (i32.const 24) (call $integer (call $a) (call $a#))))

  (func $op-retry
    (if (i32.lt_u (global.get $attempt) (call $integer (call $a) (call $a#)))
      (then
        (call $say (global.get $t-attempt-of))
        (call $put-number (global.get $attempt))
        (call $say (global.get $t-of))
        (call $put (call $a) (call $a#))
        (call $fail-with (i32.const 0))
        (return)))
    (call $say (global.get $t-attempt-is))
    (call $put-number (global.get $attempt))
    (call $result))

  (func $op-trap
    (if (i32.eqz (global.get $attempt)) (then (call $panic (call $a) (call $a#))))
    (call $result-is (global.get $recovered)))
  (func $op-loop
    (loop $again (br_if $again (i32.eqz (global.get $attempt))))
    (call $result-is (global.get $recovered)))
  (func $op-allocate
    (loop $again
      (if (i32.eqz (global.get $attempt))
        (then
          (drop (call $allocate (i32.const 1) (i32.const 1048576)))
          (br $again))))
    (call $result-is (global.get $recovered)))
  (func $op-unknown-watch
    (if (i32.eqz (global.get $attempt))
      (then
        (call $cache.get (call $at (global.get $nonesuch)) (call $of (global.get $nonesuch))
          (call $a) (call $a#) (call $a) (call $a#) (global.get $r))))
    (call $result-is (global.get $recovered)))

  ;; ---- Operations: the cache ----

  ;; The object that a, b and c name. Returns 0 if there is none; then `none` is the result.
  (func $named (result i32)
    (call $cache.get (call $a) (call $a#) (call $b) (call $b#) (call $c) (call $c#) (global.get $r))
    (if (i32.load8_u (global.get $r)) (then (return (i32.load offset=4 (global.get $r)))))
    (call $result-is (global.get $none))
    (i32.const 0))

  (func $op-get
    (local $object i32)
    (local.set $object (call $named))
    (if (i32.eqz (local.get $object)) (then (return)))
    (call $object.text (local.get $object) (call $d) (call $d#) (global.get $r))
    (call $put-option (global.get $absent))
    (call $result)
    (call $close (local.get $object)))

  (func $op-json-length
    (local $object i32)
    (local.set $object (call $named))
    (if (i32.eqz (local.get $object)) (then (return)))
    (call $object.json (local.get $object) (global.get $r))
    (call $put-number (i32.load offset=4 (global.get $r)))
    (call $result)
    (call $close (local.get $object)))

  ;; "set" for a non-empty text.
  (func $put-set (param $length i32) (param $unset i32)
    (call $say (select (global.get $set) (local.get $unset) (local.get $length))))

  (func $op-object
    (local $object i32)
    (local.set $object (call $named))
    (if (i32.eqz (local.get $object)) (then (return)))
    (call $say (global.get $l-key))
    (call $object.key (local.get $object) (i32.const 576))
    (call $put-key (i32.const 576))
    (call $say (global.get $l-api-version))
    (call $object.api-version (local.get $object) (global.get $r))
    (call $put-at (global.get $r))
    (call $say (global.get $l-kind))
    (call $object.kind (local.get $object) (global.get $r))
    (call $put-at (global.get $r))
    (call $say (global.get $l-uid))
    (call $object.uid (local.get $object) (global.get $r))
    (call $put-set (i32.load offset=4 (global.get $r)) (global.get $empty))
    (call $say (global.get $l-resource-version))
    (call $object.resource-version (local.get $object) (global.get $r))
    (call $put-set (i32.load offset=4 (global.get $r)) (global.get $empty))
    (call $say (global.get $l-generation))
    (call $put-number (call $object.generation (local.get $object)))
    (call $say (global.get $l-labels))
    (call $object.labels (local.get $object) (global.get $r))
    (call $put-pairs (i32.load (global.get $r)) (i32.load offset=4 (global.get $r)))
    (call $say (global.get $l-label))
    (call $object.label (local.get $object) (call $at (global.get $tier)) (call $of (global.get $tier)) (global.get $r))
    (call $put-option (global.get $dash))
    (call $say (global.get $l-annotation))
    (call $object.annotation (local.get $object) (call $at (global.get $note)) (call $of (global.get $note)) (global.get $r))
    (call $put-option (global.get $dash))
    (call $say (global.get $l-deletion))
    (call $object.deletion-timestamp (local.get $object) (global.get $r))
    (call $put-set (i32.load8_u (global.get $r)) (global.get $dash))
    (call $say (global.get $l-controller))
    ;; option<owner>: api-version at +4, kind at +12, name at +20, uid at +28.
    (call $object.controller (local.get $object) (global.get $r))
    (if (i32.load8_u (global.get $r))
      (then
        (call $put-at (i32.add (global.get $r) (i32.const 12)))
        (call $put-byte (i32.const 47))
        (call $put-at (i32.add (global.get $r) (i32.const 20))))
      (else (call $say (global.get $dash))))
    (call $say (global.get $l-field))
    (call $object.field (local.get $object) (call $at (global.get $p-value)) (call $of (global.get $p-value)) (global.get $r))
    (call $put-option (global.get $dash))
    (call $say (global.get $l-text))
    (call $text-of (local.get $object) (global.get $p-value))
    (call $put-option (global.get $dash))
    (call $say (global.get $l-fields))
    (call $object.fields (local.get $object) (global.get $p-several) (i32.const 3) (global.get $r))
    (call $put-options)
    (call $say (global.get $l-texts))
    (call $object.texts (local.get $object) (global.get $p-several) (i32.const 3) (global.get $r))
    (call $put-options)
    (call $result)
    (call $close (local.get $object)))

  ;; The list of values at $r, each an option of 12 bytes.
  (func $put-options
    (local $value i32)
    (local $first i32)
    (local $count i32)
    (local.set $value (i32.load (global.get $r)))
    (local.set $first (local.get $value))
    (local.set $count (i32.load offset=4 (global.get $r)))
    (block $all
      (loop $more
        (br_if $all (i32.eqz (local.get $count)))
        (if (i32.ne (local.get $value) (local.get $first)) (then (call $put-byte (i32.const 44))))
        (memory.copy (global.get $r) (local.get $value) (i32.const 12))
        (call $put-option (global.get $dash))
        (local.set $value (i32.add (local.get $value) (i32.const 12)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $more))))

  ;; "k=v,k=v"
  (func $put-pairs (param $list i32) (param $count i32)
    (local $first i32)
    (local.set $first (local.get $list))
    (block $all
      (loop $more
        (br_if $all (i32.eqz (local.get $count)))
        (if (i32.ne (local.get $list) (local.get $first)) (then (call $put-byte (i32.const 44))))
        (call $put-at (local.get $list))
        (call $put-byte (i32.const 61))
        (call $put-at (i32.add (local.get $list) (i32.const 8)))
        (local.set $list (i32.add (local.get $list) (i32.const 16)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $more))))

  (func $op-list
    (local $cursor i32)
    (local $cursor# i32)
    (loop $page
      (call $cache.list (call $a) (call $a#) (call $b) (call $b#) (call $c) (call $c#) (call $integer (call $d) (call $d#))
        (local.get $cursor) (local.get $cursor#) (global.get $r))
      (if (local.get $cursor#) (then (call $say (global.get $bar))))
      (call $put-keys-of (i32.load (global.get $r)) (i32.load offset=4 (global.get $r)))
      (local.set $cursor (i32.load offset=8 (global.get $r)))
      (local.set $cursor# (i32.load offset=12 (global.get $r)))
      (br_if $page (local.get $cursor#)))
    (call $result))

  ;; A row takes 24 bytes: the key (16), then the list of its values, each an option of 12 bytes.
  (func $op-list-fields
    (local $row i32)
    (local $count i32)
    (local $first i32)
    ;; The list of pointers has one element, which is in the script's values.
    (call $cache.list-fields (call $a) (call $a#) (call $b) (call $b#) (call $c) (call $c#) (i32.const 0)
      (i32.const 0) (i32.const 0) (i32.const 288) (i32.const 1) (global.get $r))
    (local.set $row (i32.load (global.get $r)))
    (local.set $first (local.get $row))
    (local.set $count (i32.load offset=4 (global.get $r)))
    (block $all
      (loop $more
        (br_if $all (i32.eqz (local.get $count)))
        (if (i32.ne (local.get $row) (local.get $first)) (then (call $put-byte (i32.const 32))))
        (call $put-key (local.get $row))
        (call $put-byte (i32.const 61))
        (memory.copy (global.get $r) (i32.load offset=16 (local.get $row)) (i32.const 12))
        (call $put-option (global.get $dash))
        (local.set $row (i32.add (local.get $row) (i32.const 24)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $more)))
    (call $result))

  (func $op-by-index
    (call $cache.by-index (call $a) (call $a#) (call $b) (call $b#) (call $c) (call $c#) (global.get $r))
    (call $put-keys-of (i32.load (global.get $r)) (i32.load offset=4 (global.get $r)))
    (call $result))

  (func $op-index-keys
    (local $key i32)
    (local $count i32)
    (local $first i32)
    (call $cache.index-keys (call $a) (call $a#) (call $b) (call $b#) (call $c) (call $c#) (global.get $r))
    (local.set $key (i32.load (global.get $r)))
    (local.set $first (local.get $key))
    (local.set $count (i32.load offset=4 (global.get $r)))
    (block $all
      (loop $more
        (br_if $all (i32.eqz (local.get $count)))
        (if (i32.ne (local.get $key) (local.get $first)) (then (call $put-byte (i32.const 32))))
        (call $put-key (local.get $key))
        (local.set $key (i32.add (local.get $key) (i32.const 16)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $more)))
    (call $result))

  (func $op-index-values
    (local $text i32)
    (local $count i32)
    (local $first i32)
    (call $cache.index-values (call $a) (call $a#) (call $b) (call $b#) (global.get $r))
    (local.set $text (i32.load (global.get $r)))
    (local.set $first (local.get $text))
    (local.set $count (i32.load offset=4 (global.get $r)))
    (block $all
      (loop $more
        (br_if $all (i32.eqz (local.get $count)))
        (if (i32.ne (local.get $text) (local.get $first)) (then (call $put-byte (i32.const 32))))
        (call $put-at (local.get $text))
        (local.set $text (i32.add (local.get $text) (i32.const 8)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $more)))
    (call $result))

  (func $op-has-synced
    (call $result-is (select (global.get $true) (global.get $false) (call $cache.has-synced (call $a) (call $a#)))))

  (func $op-own-write
    (call $say (global.get $j-value))
    (call $put-json (call $b) (call $b#))
    (call $say (global.get $j-end))
    (call $client.patch
      (call $at (global.get $v1)) (call $of (global.get $v1)) (call $at (global.get $config-map)) (call $of (global.get $config-map))
      (global.get $namespace) (global.get $namespace-length) (call $a) (call $a#)
      (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0)
      (i32.const 16384) (call $composed) (i32.const 0) (i32.const 0) (global.get $r))
    (if (i32.load8_u (global.get $r)) (then (call $api-error) (return)))
    (call $close (i32.load offset=4 (global.get $r)))
    (call $begin)
    (call $cache.get (call $at (global.get $items)) (call $of (global.get $items))
      (global.get $namespace) (global.get $namespace-length) (call $a) (call $a#) (global.get $r))
    (call $text-of-option (global.get $p-value))
    (call $put-option (global.get $none))
    (call $result))

  ;; ---- Operations: the API server ----

  ;; The error at $r as the result.
  (func $api-error
    (local $case i32)
    (local.set $case (i32.load8_u offset=4 (global.get $r)))
    (call $begin)
    (block $written
      (if (i32.eq (local.get $case) (i32.const 0)) (then (call $say (global.get $e-not-found)) (br $written)))
      (if (i32.eq (local.get $case) (i32.const 1)) (then (call $say (global.get $e-already-exists)) (br $written)))
      (if (i32.eq (local.get $case) (i32.const 2)) (then (call $say (global.get $e-conflict)) (br $written)))
      (if (i32.eq (local.get $case) (i32.const 3))
        (then
          (call $say (global.get $e-invalid))
          ;; The first cause starts with its field.
          (if (i32.load offset=12 (global.get $r)) (then (call $put-at (i32.load offset=8 (global.get $r)))))
          (br $written)))
      (if (i32.eq (local.get $case) (i32.const 4)) (then (call $say (global.get $e-forbidden)) (br $written)))
      (if (i32.eq (local.get $case) (i32.const 5))
        (then
          ;; The rule's lists: groups at +8, resources at +16, verbs at +24, namespaces at +32.
          (call $say (global.get $e-denied))
          (call $put-at (i32.load offset=24 (global.get $r)))
          (call $put-byte (i32.const 32))
          (call $put-at (i32.load offset=16 (global.get $r)))
          (br $written)))
      (if (i32.eq (local.get $case) (i32.const 6))
        (then (call $say (global.get $e-too-many)) (call $put-number (i32.load offset=8 (global.get $r))) (br $written)))
      (if (i32.eq (local.get $case) (i32.const 7)) (then (call $say (global.get $e-unavailable)) (br $written)))
      (call $say (global.get $e-other))
      (call $put-number (i32.load16_u offset=8 (global.get $r))))
    (call $result))

  ;; The name of the object at $r, or the error.
  (func $name-or-error
    (local $object i32)
    (if (i32.load8_u (global.get $r)) (then (call $api-error) (return)))
    (local.set $object (i32.load offset=4 (global.get $r)))
    (call $object.key (local.get $object) (i32.const 576))
    (call $close (local.get $object))
    (call $begin)
    (call $put-at (i32.const 584))
    (call $result))

  (func $op-client-get
    (local $object i32)
    (call $client.get (call $a) (call $a#) (call $b) (call $b#) (call $c) (call $c#) (call $d) (call $d#) (call $e) (call $e#)
      (global.get $r))
    (if (i32.load8_u (global.get $r)) (then (call $api-error) (return)))
    (local.set $object (i32.load offset=4 (global.get $r)))
    (call $object.text (local.get $object) (call $f) (call $f#) (global.get $r))
    (call $put-option (global.get $absent))
    (call $result)
    (call $close (local.get $object)))

  (func $op-client-list
    (local $cursor i32)
    (local $cursor# i32)
    (loop $page
      (call $client.list (call $a) (call $a#) (call $b) (call $b#) (call $c) (call $c#) (call $d) (call $d#) (call $e) (call $e#)
        (call $integer (call $f) (call $f#)) (local.get $cursor) (local.get $cursor#) (global.get $r))
      (if (i32.load8_u (global.get $r)) (then (call $api-error) (return)))
      (if (local.get $cursor#) (then (call $say (global.get $bar))))
      (call $put-keys-of (i32.load offset=4 (global.get $r)) (i32.load offset=8 (global.get $r)))
      (local.set $cursor (i32.load offset=12 (global.get $r)))
      (local.set $cursor# (i32.load offset=16 (global.get $r)))
      (br_if $page (local.get $cursor#)))
    (call $result))

  (func $op-create
    (call $client.create (call $body) (call $body#) (call $a) (call $a#) (global.get $r))
    (call $name-or-error))
  (func $op-update
    (call $client.update (call $body) (call $body#) (call $a) (call $a#) (global.get $r))
    (call $name-or-error))

  ;; patch-type: its case, then the field manager and `force` of an apply.
  (func $op-patch
    (local $type i32)
    (local $force i32)
    (if (call $is (call $e) (call $e#) (global.get $merge)) (then (local.set $type (i32.const 1))))
    (if (call $is (call $e) (call $e#) (global.get $strategic)) (then (local.set $type (i32.const 2))))
    (if (call $is (call $e) (call $e#) (global.get $apply)) (then (local.set $type (i32.const 3))))
    (if (call $is (call $e) (call $e#) (global.get $apply-force))
      (then (local.set $type (i32.const 3)) (local.set $force (i32.const 1))))
    (call $client.patch (call $a) (call $a#) (call $b) (call $b#) (call $c) (call $c#) (call $d) (call $d#)
      (local.get $type) (i32.const 0) (i32.const 0) (local.get $force)
      (call $body) (call $body#) (call $f) (call $f#) (global.get $r))
    (call $name-or-error))

  (func $op-delete
    (local $propagation i32)
    (if (call $is (call $e) (call $e#) (global.get $foreground)) (then (local.set $propagation (i32.const 1))))
    (if (call $is (call $e) (call $e#) (global.get $orphan)) (then (local.set $propagation (i32.const 2))))
    (call $client.delete (call $a) (call $a#) (call $b) (call $b#) (call $c) (call $c#) (call $d) (call $d#)
      (local.get $propagation) (call $f) (call $f#) (call $g) (call $g#) (global.get $r))
    (if (i32.load8_u (global.get $r)) (then (call $api-error) (return)))
    (call $result-is (global.get $c-deleted)))

  (func $op-denied
    (call $say (global.get $j-secret))
    (call $put (global.get $namespace) (global.get $namespace-length))
    (call $say (global.get $j-secret-end))
    (call $client.create (i32.const 16384) (call $composed) (i32.const 0) (i32.const 0) (global.get $r))
    (call $name-or-error))

  ;; ---- Operations: queue, Events, metrics, log ----

  (func $op-add
    (call $queue.add (call $a) (call $a#) (call $b) (call $b#) (call $c) (call $c#))
    (call $result-is (global.get $c-added)))
  (func $op-add-after
    (call $queue.add-after (call $a) (call $a#) (call $b) (call $b#) (call $c) (call $c#) (call $integer (call $d) (call $d#)))
    (call $result-is (global.get $c-added)))
  (func $op-event
    (call $events.publish (global.get $script) (call $is (call $a) (call $a#) (global.get $warning))
      (call $b) (call $b#) (call $c) (call $c#) (call $d) (call $d#))
    (call $result-is (global.get $published)))
  ;; The only label is a pair: pointer and length of b and c, which are consecutive.
  (func $op-metric (param $type i32)
    (local $number f64)
    (local.set $number (call $decimal (call $d) (call $d#)))
    (if (i32.eq (local.get $type) (i32.const 0))
      (then (call $metrics.counter (call $a) (call $a#) (i32.const 272) (i32.const 1) (local.get $number))))
    (if (i32.eq (local.get $type) (i32.const 1))
      (then (call $metrics.gauge (call $a) (call $a#) (i32.const 272) (i32.const 1) (local.get $number))))
    (if (i32.eq (local.get $type) (i32.const 2))
      (then (call $metrics.histogram (call $a) (call $a#) (i32.const 272) (i32.const 1) (local.get $number))))
    (call $result-is (global.get $recorded)))
  (func $op-log
    (local $level i32)
    (if (call $is (call $a) (call $a#) (global.get $info)) (then (local.set $level (i32.const 1))))
    (if (call $is (call $a) (call $a#) (global.get $warn)) (then (local.set $level (i32.const 2))))
    (if (call $is (call $a) (call $a#) (global.get $error)) (then (local.set $level (i32.const 3))))
    ;; The only field is c and d.
    (call $log (local.get $level) (call $b) (call $b#) (i32.const 280) (i32.const 1))
    (call $result-is (global.get $logged)))

  ;; A script has no other finalizer, because a merge patch replaces the whole list.
  (func $op-finalizer
    (local $deleted i32)
    (local $held i32)
    (call $object.deletion-timestamp (global.get $script) (global.get $r))
    (local.set $deleted (i32.load8_u (global.get $r)))
    (call $text-of (global.get $script) (global.get $p-finalizer))
    (local.set $held (i32.load8_u (global.get $r)))
    (if (i32.and (local.get $deleted) (i32.eqz (local.get $held))) (then (return)))
    (if (local.get $deleted) (then (call $result-is (global.get $cleaned))))
    (if (i32.eq (local.get $deleted) (local.get $held))
      (then
        (call $begin)
        (call $say (select (global.get $j-no-finalizers) (global.get $j-finalizers) (local.get $deleted)))
        (call $object.key (global.get $script) (i32.const 576))
        (call $client.patch
          (call $at (global.get $v1)) (call $of (global.get $v1)) (call $at (global.get $config-map)) (call $of (global.get $config-map))
          (i32.load (i32.const 576)) (i32.load (i32.const 580)) (i32.load (i32.const 584)) (i32.load (i32.const 588))
          (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0)
          (i32.const 16384) (call $composed) (i32.const 0) (i32.const 0) (global.get $r))
        ;; Retry with the number of the error's case.
        (if (i32.load8_u (global.get $r))
          (then
            (call $begin)
            (call $say (global.get $t-patch-failed))
            (call $put-number (i32.load8_u offset=4 (global.get $r)))
            (call $fail-with (i32.const 0))
            (return)))
        (call $close (i32.load offset=4 (global.get $r)))))
    (if (i32.eqz (local.get $deleted)) (then (call $result-is (global.get $held)))))
)
