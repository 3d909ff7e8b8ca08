#include <cstddef>
#include <utility>
#include <tuple>
#include <string>
#include <vector>
#include <map>
#include <memory>
#include <functional>
#include <concepts>
#include <type_traits>
#include <compare>
#define U __attribute__((used, noinline))
template<class... T> U void sink(T const&...) {}
namespace packs {
template<class... T> U auto pack(T... t) { return sizeof...(T); }
template<class... T> U auto fold(T... t) -> decltype((t + ...)) { return (t + ...); }
template<class... T> U auto fold2(T... t) -> decltype((0 + ... + t)) { return (0 + ... + t); }
template<class... T> U auto fold3(T... t) -> decltype((... , t)) { return (... , t); }
template<class... T> U void refs(T&&... t) { }
template<class... T> U void tup(std::tuple<T*...> t, std::pair<T, int>... q) { }
template<class... A, class... B> U void two(std::tuple<A...>, std::tuple<B...>) {}
template<int... N> U void ints() {}
template<template<class...> class C, class... T> U void tt(C<T...>*) {}
template<class F, class... A> U auto call(F f, A&&... a) -> decltype(f(std::forward<A>(a)...)) { return f(std::forward<A>(a)...); }
}
namespace lambdas {
U inline auto plain() { return [](int) { return 1; }; }
U inline auto generic() { return [](auto x, auto... y) { return sizeof(x); }; }
U inline auto templ() { return []<class T, int N, template<class> class C, class... P>(T (&)[N], C<T>*, P... p) { return N; }; }
U inline auto constrained() { return []<std::integral T>(T x) requires (sizeof(T) > 2) { return x; }; }
U inline auto nested() { return [](auto a) { return [=](auto b) { return [=](auto c) { return a + b + c; }; }; }; }
template<class T> struct S { static inline auto m = [](T t) { return t; }; decltype(m) n; int f(int x = [](auto) { return 3; }(1)) { return x; } };
template<class X> struct one {};
}
namespace concepts {
template<class T> concept C = requires(T t) { t.x; typename T::type; { t + 1 } noexcept -> std::convertible_to<int>; };
template<class T> requires std::integral<T> U void a(T) {}
template<std::integral T> U void b(T) {}
U void c(std::integral auto x) {}
template<class T> U void d(T) requires std::integral<T> && (sizeof(T) > 1) {}
template<class T> struct F { friend U void fr(F) requires (sizeof(T) > 1) {} U void m() requires std::integral<T> {} };
template<class T> U auto e(T t) requires requires(T a, T* b) { a + *b; typename std::vector<T>::type2; } || true { return t; }
template<class T, auto V> U void v() {}
template<std::integral auto V> U void w() {}
}
namespace exprs {
template<class T> U auto add(T t) -> decltype(t + 1 * 2 - (3 - t)) { return t; }
template<class T> U auto nw(T t) -> decltype(new T(t), ::new (static_cast<void*>(nullptr)) T[3], delete &t) { }
template<class T> U auto mem(T* t) -> decltype(t->x, (*t).f(), t->T::f(), t->template g<int>()) { return t->template g<int>(); }
template<class T> U auto dtor(T* t) -> decltype(t->~T()) { }
template<class T> U auto ini(T t) -> decltype(T{t}, T(t), T()) { return t; }
template<class T> U auto qual(T t) -> decltype(T::s, ::sink(t), std::move(t)) { return std::move(t); }
template<class T> U auto cond(T t) -> std::enable_if_t<(sizeof(T) > 2 ? true : false), T> { return t; }
template<class T> U auto tid(T t) -> std::enable_if_t<(alignof(T) > 2), T> { return t; }
#ifdef __clang__
template<class T> U auto noe(T t) -> std::enable_if_t<noexcept(t + t), T> { return t; }
#endif
template<class T> U auto casts(T t) -> decltype(static_cast<long>(t), (char)t, reinterpret_cast<long*>(&t), const_cast<T*>(&t)) { return nullptr; }
template<class T> U auto idx(T* t) -> decltype(t[1], *t, &*t, !*t, ~*t, -*t, +*t, (*t)++, ++*t) { return *t; }
template<class T, class M> U auto pm(T t, M T::*m) -> decltype(t.*m, (&t)->*m) { return t.*m; }
template<class T> U auto cmp(T t) -> decltype(t <=> t, t == t) { return true; }
template<class T> U auto assign(T t) -> decltype(t = t += t) { return t; }
template<int N> U void arr(int (&)[N], int (*)[N + 1]) {}
template<class T, T V> U void val() {}
enum E { A, B }; enum class EC : long { X = -5 };
struct X { int x; int s; int f(); template<class T> int g() { return 1; } static constexpr int sm = 3; typedef int type; operator int() const; template<class T> U operator T*() { return nullptr; } bool operator->*(int) { return true; } auto operator<=>(const X&) const = default; };
template<int X::*P> U void mp() {}
template<int (X::*P)()> U void mf() {}
template<auto P> U void au() {}
struct L { int a; double b; const char* c; bool operator==(const L&) const = default; };
struct Base { int a, b; }; struct Der : X, Base { };
template<double D> U void dd() {}
extern int arr_object[5];
int arr_object[5];
}
namespace abi { struct [[gnu::abi_tag("tagged")]] T { U T() {} U void f() {} }; U inline T f() { return T(); } template<class Q> [[gnu::abi_tag("a", "b")]] U void g(Q) {} }
namespace { struct Hidden { U void f() {} struct In {}; }; template<class T> U void hid(T) {} }
namespace quals {
struct Q { U void c() const {} U void v() volatile {} U void l() & {} U void r() && {} U void cr() const & {} U void crr() const && {} U void n() noexcept {} };
U inline void fp(void (*)(int), int (*(*)(char))[3], void (Q::*)() const &, int Q::*, void (&)(), int (&&)[2], void (*)() noexcept) {}
U inline void bi(signed char, unsigned char, wchar_t, char16_t, char32_t, char8_t, __int128, unsigned __int128, long double, std::nullptr_t, __float128, _Complex double, ...) {}
typedef int v4 __attribute__((vector_size(16)));
U inline void vec(v4) {}
template<class T> U void ne(void (*)(T) noexcept(sizeof(T) > 1)) {}
U inline void restr(int *__restrict, const volatile int*) {}
}
namespace locals {
U inline int f(int x) { struct Loc { U int g() { static int cnt; struct In { U int h() { return 2; } }; return ++cnt + In().h(); } }; { struct Loc { U int g() { return 2; } }; Loc().g(); } static std::string s("a"); return Loc().g(); }
template<class T> U auto tf(T) { struct Loc { T t; U T g() { return t; } }; Loc l; l.g(); static T st; return l; }
struct Un { struct { int a; U int f() { return a; } } un; union { int z; }; enum { Q1, Q2 } en; };
template<class T> U void use(T) {}
auto& [b1, b2] = *new std::pair<int, int>(1, 2);
const std::string& ref = std::string("temp");
thread_local std::string tls("x");
}
struct V1 { virtual ~V1(); virtual void f(); int a; }; struct V2 { virtual ~V2(); virtual V2* g(); int b; };
struct V3 : virtual V1, V2 { V3(); ~V3(); void f() override; V3* g() override; };
V1::~V1() {} void V1::f() {} V2::~V2() {} V2* V2::g() { return this; } V3::V3() {} V3::~V3() {} void V3::f() {} V3* V3::g() { return this; }
struct Inh : std::string { using std::string::string; }; struct B2 { template<class T> B2(T, int) {} }; struct Inh2 : B2 { using B2::B2; };
namespace cjk { U inline void 変数(int) {} }
U long long operator""_km(unsigned long long x) { return x; } U inline int operator""_s(const char*, std::size_t) { return 1; }
void* operator new(std::size_t, V1*); 
int use_all() {
  using namespace packs; using namespace exprs;
  int i = 1; long l = 2; int* p = &i;
  pack(); pack(1, 'c', 2.0); fold(1, 2L); fold2(1, 2); fold3(1, 2); refs(i, 2, "x"); tup(std::tuple<int*, char*>(), {1, 2}, {'c', 1}); two(std::tuple<int, char>(), std::tuple<>()); two(std::tuple<>(), std::tuple<>());
  ints<1, 2, -3>(); ints<>(); std::tuple<int, char> tp; tt(&tp); call([](int, auto) { return 1; }, 1, 2); call(lambdas::plain(), 3);
  lambdas::generic()(1, 2, 3); lambdas::generic()('c'); int a3[3]; lambdas::one<int> on; lambdas::templ()(a3, &on); lambdas::templ()(a3, &on, 1, 'c'); lambdas::constrained()(3); lambdas::nested()(1)(2)(3L);
  lambdas::S<int>::m(2); lambdas::S<int>().f();
  concepts::a(1); concepts::b(1L); concepts::c('c'); concepts::d(1); fr(concepts::F<int>()); concepts::F<int>().m(); concepts::e(1); concepts::v<int, 3>(); concepts::v<int, &arr_object>(); concepts::v<int, nullptr>(); concepts::v<int, 'c'>(); concepts::w<3u>(); concepts::w<true>();
  X x{}; Der der; add(1); add(1.0); mem(&x); dtor(&x); ini(1); qual(x); cond(1); tid(1);
#ifdef __clang__
 noe(1);
#endif
casts(1L); idx(&i); pm(x, &X::x); cmp(1); assign(1); arr(a3, (int (*)[4])nullptr);
  val<int, -1>(); val<unsigned, 3u>(); val<bool, true>(); val<char, 'a'>(); val<long, -7>(); val<unsigned long, 8>(); val<E, B>(); val<EC, EC::X>(); val<int*, nullptr>(); val<short, 3>(); val<unsigned long long, 9>(); val<long long, 1>(); val<__int128, 3>(); val<int X::*, &X::x>(); val<int X::*, nullptr>(); val<int (*)(int), &locals::f>(); val<wchar_t, L'x'>(); val<signed char, 3>();
  mp<&X::x>(); mf<&X::f>(); au<3>(); au<&arr_object>(); au<&X::x>(); au<L{1, 2.5, nullptr}>(); au<L{}>(); au<[] { return 3; }>(); dd<1.5>(); dd<-0.0>(); au<3.0f>(); au<E::A>();
  int* xp = x; (void)xp; (void)(x->*3); (void)static_cast<char*>(x);
  abi::f().f(); abi::g(1); abi::g(abi::T()); Hidden().f(); hid(Hidden::In()); hid([] {});
  quals::Q q; q.c(); q.v(); q.l(); std::move(q).r(); q.cr(); quals::ne<int>(nullptr);
  locals::f(1); auto lo = locals::tf(1); locals::use(lo); locals::Un un{}; un.un.f(); locals::use(un.un); locals::use(un.en); (void)locals::b1; (void)locals::tls;
  struct Here { U void f() {} }; Here().f(); locals::use(Here()); locals::use([](int) {}); locals::use([]<class T>(T) {}); locals::use([i](auto&&... r) { return i; });
  locals::use(std::function<int(int, char)>()); locals::use(std::map<std::string, std::vector<int>>()); locals::use(std::make_shared<std::string>("a")); locals::use(&X::g<int>); locals::use((void (*)(const char*, ...))nullptr); locals::use((int (*)[3][4])nullptr); locals::use((const int (*)[3])nullptr);
  Inh inh("a"); Inh2 inh2(1, 2); Inh2 inh3('c', 2); 1_km; "a"_s; cjk::変数(1); sink(); sink(1, 'c');
  V3 v; return v.a;
}
