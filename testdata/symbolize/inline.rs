//! Generic, inlined and closure functions.

mod shapes {
    use std::hint::black_box;

    pub trait Area {
        fn area(&self) -> u64;
    }

    pub struct Square(pub u64);

    impl Area for Square {
        #[inline(never)]
        fn area(&self) -> u64 {
            multiply(self.0, self.0)
        }
    }

    #[inline(always)]
    fn multiply(a: u64, b: u64) -> u64 {
        black_box(a).wrapping_mul(black_box(b))
    }

    #[inline(never)]
    pub fn total<T: Area>(shapes: &[T]) -> u64 {
        shapes.iter().map(|shape| shape.area() + multiply(2, 3)).sum()
    }
}

fn main() {
    let shapes = [shapes::Square(2), shapes::Square(3)];
    println!("{}", shapes::total(&shapes));
}
