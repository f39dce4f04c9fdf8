! Heat in a plate, cell by cell: an allocatable array of derived type, passed on with assumed shape, and constants in a
! COMMON block. It takes no arguments and prints a checksum.
module plate
  implicit none
  type :: cell
    double precision :: now, next
    double precision :: conductivity, source
    integer :: material
  end type cell
contains
  subroutine step(cells)
    type(cell), intent(inout) :: cells(:, :)
    double precision :: dt, loss(0:7)
    common /physics/ dt, loss
    integer :: i, j
    do j = 2, size(cells, 2) - 1
      do i = 2, size(cells, 1) - 1
        cells(i, j)%next = cells(i, j)%now + dt * cells(i, j)%conductivity * ( &
          cells(i - 1, j)%now + cells(i + 1, j)%now + cells(i, j - 1)%now + cells(i, j + 1)%now &
          - 4d0 * cells(i, j)%now) + cells(i, j)%source - loss(cells(i, j)%material)
      end do
    end do
    do j = 2, size(cells, 2) - 1
      do i = 2, size(cells, 1) - 1
        cells(i, j)%now = cells(i, j)%next
      end do
    end do
  end subroutine step
end module plate

program heat
  use plate
  implicit none
  type(cell), allocatable :: cells(:, :)
  double precision :: dt, loss(0:7)
  common /physics/ dt, loss
  integer, parameter :: n = 1000
  integer :: i, j, pass
  dt = 0.1d0
  loss = [(1d-6 * i, i = 0, 7)]
  allocate(cells(n, n))
  do j = 1, n
    do i = 1, n
      cells(i, j)%now = mod(i * 7 + j * 13, 97) / 97d0
      cells(i, j)%next = 0d0
      cells(i, j)%conductivity = 0.5d0 + mod(i + j, 5) / 10d0
      cells(i, j)%source = merge(1d-5, 0d0, mod(i, 50) == 0)
      cells(i, j)%material = mod(i * j, 8)
    end do
  end do
  do pass = 1, 200
    call step(cells)
  end do
  print '(f0.6)', sum(cells%now)
end program heat
