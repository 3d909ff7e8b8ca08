"""Writes `otlp/ebpf.pb` and `otlp/ebpf.json` by OpenTelemetry's own classes (PyPI: opentelemetry-proto, protobuf): profiles as the eBPF profiler
sends them, with timestamps instead of values, addresses in two mappings, an inlined call, and labels of samples and of resources."""
import base64

from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.profiles.v1development import profiles_pb2 as otlp

data = otlp.ProfilesData()
dictionary = data.dictionary
strings = [""]


def string(text):
    if text not in strings:
        strings.append(text)
    return strings.index(text)


def attribute(key, value):
    entry = dictionary.attribute_table.add(key_strindex=string(key))
    if isinstance(value, int):
        entry.value.int_value = value
    else:
        entry.value.string_value = value
    return len(dictionary.attribute_table) - 1


for table in (dictionary.mapping_table, dictionary.location_table, dictionary.function_table, dictionary.link_table,
              dictionary.attribute_table, dictionary.stack_table):
    table.add()
build_id = attribute("process.executable.build_id.gnu", "c0ffee")
dictionary.mapping_table.add(memory_start=0x400000, memory_limit=0x500000, file_offset=0x1000, filename_strindex=string("/usr/bin/server"),
                             attribute_indices=[build_id])
dictionary.mapping_table.add(filename_strindex=string("[kernel]"))
for name in ("main", "work", "inlined", "do_syscall_64"):
    dictionary.function_table.add(name_strindex=string(name), filename_strindex=string("server.c"))
main = dictionary.location_table.add(mapping_index=1, address=0x401000)
main.lines.add(function_index=1, line=10)
work = dictionary.location_table.add(mapping_index=1, address=0x402000)
work.lines.add(function_index=3, line=30)
work.lines.add(function_index=2, line=20)
kernel = dictionary.location_table.add(mapping_index=2, address=0xffffffff81000082)
kernel.lines.add(function_index=4)
dictionary.location_table.add(mapping_index=1, address=0x403000)
for locations in ([2, 1], [3, 2, 1], [4, 1]):
    dictionary.stack_table.add(location_indices=locations)
thread = attribute("thread.name", "worker")
number = attribute("thread.id", 4711)
for service, offset in (("shop", 0), ("cart", 50)):
    resource = data.resource_profiles.add()
    resource.resource.attributes.add(key="service.name").value.string_value = service
    profile = resource.scope_profiles.add().profiles.add(time_unix_nano=1_700_000_000_000_000_000 + offset, duration_nano=5_000_000_000,
                                                         period=50_000_000)
    profile.sample_type.type_strindex, profile.sample_type.unit_strindex = string("samples"), string("count")
    profile.period_type.type_strindex, profile.period_type.unit_strindex = string("cpu"), string("nanoseconds")
    for stack, count in ((1, 3), (2, 2), (3, 1)):
        profile.samples.add(stack_index=stack, attribute_indices=[thread, number],
                            timestamps_unix_nano=[1_700_000_000_000_000_000 + offset + tick for tick in range(count)])
off_cpu = data.resource_profiles[0].scope_profiles[0].profiles.add()
off_cpu.sample_type.type_strindex, off_cpu.sample_type.unit_strindex = string("off_cpu"), string("nanoseconds")
off_cpu.samples.add(stack_index=1, values=[7_000, 1_000])
dictionary.string_table.extend(strings)
open("otlp/ebpf.pb", "wb").write(data.SerializeToString())
open("otlp/ebpf.json", "w").write(MessageToJson(data, indent=None) + "\n")

# Attributes of every kind of value, and links.
data = otlp.ProfilesData()
dictionary = data.dictionary
strings = [""]
for table in (dictionary.mapping_table, dictionary.location_table, dictionary.function_table, dictionary.link_table,
              dictionary.attribute_table, dictionary.stack_table):
    table.add()
trace = bytes(range(16))
dictionary.link_table.add(trace_id=trace, span_id=trace[8:])
resource = data.resource_profiles.add()
for key, number in (("ratio", 0.5), ("whole", 2.0), ("none", float("nan")), ("least", float("-inf"))):
    resource.resource.attributes.add(key=key).value.double_value = number
resource.resource.attributes.add(key="bytes").value.bytes_value = b"hi\xff!"
resource.resource.attributes.add(key="empty").value.SetInParent()
several = resource.resource.attributes.add(key="several").value.array_value.values
several.add().string_value = 'say "a\\b"\n'
several.add().bool_value = True
several.add().int_value = -(1 << 63)
several.add().double_value = 1.25
several.add().double_value = float("inf")
several.add().bytes_value = b"h"
several.add()
several.add().string_value_strindex = string("later")
several.add().array_value.SetInParent()
pairs = several.add().kvlist_value.values
pairs.add(key="k").value.array_value.values.add().int_value = 1
pairs.add(key_strindex=string("later")).value.kvlist_value.SetInParent()
dictionary.attribute_table.add(key_strindex=string("pair")).value.kvlist_value.values.add(key="a").value.string_value = "b"
profile = resource.scope_profiles.add().profiles.add()
profile.sample_type.type_strindex, profile.sample_type.unit_strindex = string("samples"), string("count")
profile.samples.add(attribute_indices=[1], link_index=1, values=[1])
profile.samples.add(values=[2])
dictionary.string_table.extend(strings)
open("otlp/values.pb", "wb").write(data.SerializeToString())
# In OpenTelemetry's JSON, ids are in hexadecimal, not in base64.
text = MessageToJson(data, indent=None)
for id in (trace, trace[8:]):
    text = text.replace(f'"{base64.b64encode(id).decode()}"', f'"{id.hex()}"')
open("otlp/values.json", "w").write(text + "\n")
